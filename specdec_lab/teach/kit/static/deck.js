// Makes a deck of the sections on the page: moves what does not fit one slide down, then starts reveal.js.
// Nothing is shrunk and nothing is left out. Measured here and not when the kit is built, because fonts differ between machines.
"use strict";

const SPLIT = new Set(["UL", "OL", "DIV", "FIGURE", "TABLE", "TBODY", "BLOCKQUOTE", "PRE", "SECTION"]);  // between their parts
const LAST_RESORT = new Set(["LI", "P", "SPAN", "CODE", "EM", "STRONG"]);  // only where nothing stands before them

function empty(node) {
  return !node.textContent.trim() && !(node.querySelector && node.querySelector("img, table, svg"));
}

function bottom(node) {
  if (node.nodeType === Node.ELEMENT_NODE) return node.getBoundingClientRect().bottom;
  const range = document.createRange();
  range.selectNodeContents(node);
  return range.getBoundingClientRect().bottom;
}

// Move what reaches below `limit` from `node` to `rest`. `first`: nothing stands above it on the slide.
function split(node, limit, rest, first) {
  const parts = [...node.childNodes].filter((part) => part.nodeType === Node.TEXT_NODE
    || (part.nodeType === Node.ELEMENT_NODE && !["STYLE", "SCRIPT", "THEAD"].includes(part.tagName)));
  let place = parts.findIndex((part) => !empty(part) && bottom(part) > limit + 1);
  if (place < 0) return;
  const part = parts[place];
  const alone = first && parts.slice(0, place).every(empty);
  let kept = false;  // whether a piece of the part stays
  if (part.nodeType === Node.TEXT_NODE) {
    kept = splitText(part, limit, rest, alone, node.closest("pre") !== null);
  } else if (part.tagName === "TR" && alone) {  // a row taller than a slide goes on in the next, cell by cell
    const shell = part.cloneNode(false);
    for (const cell of part.children) {
      const more = shell.appendChild(cell.cloneNode(false));
      split(cell, limit, more, true);
    }
    if (!empty(shell)) {
      rest.append(shell);
      kept = true;
    }
  } else if ((SPLIT.has(part.tagName) && (alone || !short(part))) || (alone && LAST_RESORT.has(part.tagName))) {
    const shell = part.cloneNode(false);
    shell.removeAttribute("id");
    split(part, limit, shell, alone);
    const cut = shell.dataset.cut === "yes";  // the list goes on inside an item
    if (part.tagName === "OL") shell.start = part.start + part.querySelectorAll(":scope > li").length - (cut ? 1 : 0);
    if (part.tagName === "TABLE" && part.tHead) shell.prepend(part.tHead.cloneNode(true));
    const stays = [...part.childNodes].some((one) => !["THEAD", "STYLE"].includes(one.tagName) && !empty(one));
    if (stays && !empty(shell)) {
      rest.append(shell);
      kept = true;
      if (part.tagName === "LI") rest.dataset.cut = "yes";
    } else if (!stays) {  // all of it went: let it go whole
      for (const one of [...shell.childNodes]) if (one.tagName !== "THEAD") part.append(one);
    }
  }
  if (!kept && alone) kept = true;  // taller than a slide, and not to be cut: it has the slide to itself
  let from = kept ? place + 1 : place;
  while (!kept && from > 0 && leads(parts[from - 1]) && !parts.slice(0, from - 1).every(empty)) from -= 1;
  for (const one of parts.slice(from)) rest.append(one);
}

// Printed text that is not worth cutting.
function short(part) {
  const pre = part.matches("pre") ? part : part.querySelector("pre");
  return pre !== null && pre.textContent.trim().split("\n").length <= 12;
}

// A heading, or a line that ends in a colon, does not stay behind without what it leads to.
function leads(part) {
  return empty(part) || /^H[1-6]$/.test(part.tagName ?? "") || (part.tagName === "P" && /:\s*$/.test(part.textContent));
}

function splitText(node, limit, rest, alone, lines) {
  if (!lines && !alone) return false;
  const text = node.data, range = document.createRange();
  const fits = (end) => {
    range.setStart(node, 0);
    range.setEnd(node, end);
    return range.getBoundingClientRect().bottom <= limit + 1;
  };
  const ends = [...text.matchAll(lines ? /\n/g : /[.;:]\s|\s/g)].map((match) => match.index + match[0].length).filter(fits);
  const sentences = ends.filter((end) => /[.;:]\s$/.test(text.slice(0, end)));
  const end = (!lines && sentences.at(-1)) || ends.at(-1);
  if (!end || !text.slice(end).trim() || !text.slice(0, end).trim()) return false;
  rest.append(document.createTextNode(text.slice(end)));
  node.data = text.slice(0, end).trimEnd();
  return true;
}

function overflows(body) {  // margins behind the last line may go
  const limit = body.getBoundingClientRect().bottom;
  return [...body.children].some((part) => bottom(part) > limit + 1);
}

function keepWidths(table) {  // of its columns, when rows leave
  const width = (node) => `${node.getBoundingClientRect().width}px`;
  const cells = [...(table.rows[0]?.cells ?? [])], widths = cells.map(width);
  table.style.width = width(table);
  cells.forEach((cell, place) => cell.style.width = widths[place]);
  table.style.tableLayout = "fixed";
}

function pour(section) {
  for (const head of section.querySelectorAll(".body th"))  // long names may break behind a _
    head.innerHTML = head.innerHTML.replace(/(\w_)(?=\w)/g, "$1<wbr>");
  let body = section.querySelector(".body");
  if (overflows(body)) section.querySelectorAll(".body table").forEach(keepWidths);
  while (overflows(body)) {
    const next = section.cloneNode(false), frame = document.createElement("div"), rest = document.createElement("div");
    next.removeAttribute("id");
    next.className = "text";
    frame.className = "frame";
    rest.className = "body";
    const heading = section.querySelector("h1, h2"), title = document.createElement("h2");
    title.innerHTML = heading.innerHTML;
    if (!title.querySelector(".more")) title.insertAdjacentHTML("beforeend", ' <span class="more">(continued)</span>');
    frame.append(title, rest);
    next.append(frame, ...[...section.querySelectorAll(":scope > .cuts, :scope > .notes, :scope > .code")].map((one) => one.cloneNode(true)));
    split(body, body.getBoundingClientRect().bottom - 8, rest, true);  // 8: borders and paddings below the last line
    if (overflows(body)) {  // one thing that is taller than a slide
      body.classList.add("scrolls");
      body.tabIndex = 0;
    }
    if (empty(rest)) return;
    section.after(next);
    section = next;
    body = rest;
  }
}

// A player keeps the slide for itself: what its signs mean is one slide down, all its steps in words are with the speaker.
function stage(section) {
  const player = section.querySelector(".specdec-player"), legend = player?.querySelector(".specdec-stage > p:last-child");
  if (!legend) return;
  const next = document.createElement("section");
  next.className = "text";
  next.innerHTML = '<div class="frame"><h2></h2><div class="body specdec-player"><div class="specdec-stage"></div></div></div>';
  next.querySelector("h2").innerHTML = section.querySelector("h2").innerHTML + ' <span class="more">(what the signs mean)</span>';
  next.querySelector(".specdec-stage").append(legend);
  next.append(...[...section.querySelectorAll(":scope > .cuts")].map((one) => one.cloneNode(true)));
  section.after(next);
  const words = player.querySelector(":scope > details:last-of-type ol");
  if (!words) return;
  let notes = section.querySelector(":scope > .notes");
  if (!notes) {
    notes = section.appendChild(document.createElement("aside"));
    notes.className = "notes";
  }
  notes.append(words.cloneNode(true));
}

for (const section of document.querySelectorAll(".slides section.stage")) stage(section);
for (const section of document.querySelectorAll(".slides section section:not(.stage)")) pour(section);
document.body.classList.remove("pouring");
if (location.search.includes("receiver")) document.querySelector(".tools").remove();  // inside the speaker's window

const dialog = document.querySelector("dialog.aside");
const buttons = [...document.querySelectorAll(".tools button")];

function aside(kind) {
  return Reveal.getCurrentSlide().querySelector(`:scope > .${kind}`)?.innerHTML ?? "";
}

function toggle(kind) {
  const open = dialog.open && dialog.dataset.kind === kind;
  if (dialog.open) dialog.close();
  const content = aside(kind);
  if (open || !content) return;
  dialog.dataset.kind = kind;
  dialog.setAttribute("aria-label", kind === "code" ? "The code behind this slide" : "What there is to say");
  dialog.innerHTML = content;
  dialog.showModal();
}

function offer() {
  for (const button of buttons) button.hidden = !aside(button.dataset.shows);
}

for (const button of buttons) button.onclick = () => toggle(button.dataset.shows);
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
dialog.addEventListener("close", () => document.activeElement?.blur());  // the keys are the deck's again
dialog.addEventListener("keydown", (event) => {
  if (!dialog.open) return;
  if (event.key.toLowerCase() === (dialog.dataset.kind === "code" ? "c" : "t")) dialog.close();
  event.stopPropagation();
});
document.addEventListener("toggle", (event) => event.target.closest?.(".body")?.classList.add("scrolls"), true);  // unfolded
document.addEventListener("keydown", (event) => {  // out of a player, which keeps its keys
  if (event.key === "Escape" && document.activeElement?.closest(".picture, .body")) {
    document.activeElement.blur();
    event.stopImmediatePropagation();
  }
}, true);

Reveal.initialize({
  width: 1280,
  height: 720,
  margin: 0,
  minScale: 0.2,
  maxScale: 3,
  center: false,
  hash: true,
  transition: "none",
  backgroundTransition: "none",
  slideNumber: "c/t",
  pdfMaxPagesPerSlide: 1,
  scrollActivationWidth: null,
  plugins: [RevealNotes],
}).then(() => {
  Reveal.addKeyBinding({keyCode: 67, key: "C", description: "Code behind this slide"}, () => toggle("code"));
  Reveal.addKeyBinding({keyCode: 84, key: "T", description: "What there is to say"}, () => toggle("notes"));
  Reveal.on("slidechanged", offer);
  offer();
});
