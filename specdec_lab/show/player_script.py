"""The player's style and script, as text. The script builds the controls, so that none is left dead without it.

It finds every player on the page that is not running yet, needs no ids and fetches nothing. It draws no cells: those
come ready from `frame_html`, as rows that each step names by number.
"""

from __future__ import annotations

from .frame_html import rules

STYLE = """
.specdec-player{font-family:sans-serif;font-size:16px;line-height:1.45;padding:3px}
.specdec-strip,.specdec-picture{overflow-x:auto;padding:3px}
.specdec-picture{padding:3px 0}
.specdec-stage tr{background:none!important}
.specdec-player h3{margin:0 0 8px}
.specdec-stage td{min-width:calc(var(--letters)*1ch)}
.specdec-picture th,.specdec-picture td:nth-child(2){position:sticky;left:0;z-index:1;background:var(--ground)}
.specdec-picture td:nth-child(2){left:var(--head)}
.specdec-bar{display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin:4px 0}
.specdec-bar label{display:flex;flex:1 1 300px;gap:8px;align-items:center}
.specdec-bar input{flex:1;accent-color:#0072B2;height:28px;margin:0}
.specdec-bar button{font:inherit;color:inherit;background:none;border:2px solid rgba(128,128,128,.6);border-radius:6px;
padding:3px 12px;cursor:pointer}
.specdec-bar button[aria-pressed=true]{border-color:currentColor;font-weight:bold;background:rgba(86,180,233,.3)}
.specdec-player :focus-visible{outline:3px solid #E69F00;outline-offset:2px}
.specdec-say{font-size:17px;min-height:2.9em;margin:8px 0}
.specdec-sums{display:flex;flex-wrap:wrap;gap:4px 28px;margin:10px 0}
""" + rules(".specdec-stage")

SCRIPT = r"""
for (const root of document.querySelectorAll(".specdec-player")) {
  if (root.specdecReady) continue;
  root.specdecReady = true;
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const sentences = [...root.querySelectorAll("details li")].map((item) => item.textContent);
  const stage = root.querySelector(".specdec-stage");
  stage.style.setProperty("--letters", data.letters);
  const make = (tag, parent, name) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    return parent.appendChild(node);
  };
  const button = (text, parent, go) => {
    const node = make("button", parent);
    node.type = "button";
    node.textContent = text;
    node.onclick = () => show(go());
    return node;
  };
  stage.replaceChildren();
  // notebooks and slides take these keys for themselves; on a control here they are the control's
  const ours = /^(Arrow|Page|Home$|End$|Enter$| $)/;
  root.addEventListener("keydown", (event) => {
    if (ours.test(event.key) && !event.ctrlKey && !event.metaKey && !event.shiftKey) event.stopPropagation();
  });
  let now = 0;
  const last = data.frames.length - 1;
  const bar = make("div", stage, "specdec-bar");
  button("◂ back", bar, () => now - 1);
  button("next ▸", bar, () => now + 1);
  const label = make("label", bar);
  make("span", label).textContent = "Step";
  const slider = make("input", label);
  Object.assign(slider, {type: "range", min: 0, max: last, step: 1, value: 0});
  slider.oninput = () => show(+slider.value);
  const where = make("span", label);
  const phases = make("div", stage, "specdec-bar");
  const round = make("b", phases);
  const find = (number, phase) => data.frames.findIndex((frame) => frame[0] === number && frame[1] === phase);
  const chips = data.phases.map((phase, index) =>
    button(`${index + 1} ${phase}`, phases, () => find(Math.max(data.frames[now][0], 1), phase)));
  button("next round ▸▸", phases, () => find(data.frames[now][0] + 1, data.frames[now][0] ? data.frames[now][1] : data.phases[0]));
  const say = make("p", stage, "specdec-say");
  say.setAttribute("aria-live", "polite");
  const picture = make("div", stage, "specdec-picture");
  picture.setAttribute("role", "img");
  const sums = make("div", stage, "specdec-sums");
  make("p", stage).innerHTML = data.legend;
  function show(index) {
    if (index < 0 || index > last) return;
    now = index;
    const [number, phase, finished, rows] = data.frames[index];
    slider.value = index;
    slider.setAttribute("aria-valuetext", number ? `Round ${number}, ${phase}` : phase);
    where.textContent = `${index + 1} of ${last + 1}`;
    round.textContent = number ? `Round ${number} of ${data.rounds}` : "Start";
    chips.forEach((chip, place) => chip.setAttribute("aria-pressed", data.phases[place] === phase));
    say.textContent = sentences[index];
    picture.setAttribute("aria-label", sentences[index]);
    picture.innerHTML = data.table.join(rows.map((row) => data.rows[row]).join(""));
    fit();
    sums.replaceChildren();
    make("b", sums).textContent = `After ${finished} round${finished === 1 ? "" : "s"}:`;
    for (const [name, value] of data.sums[finished]) make("span", sums).textContent = `${name} ${value}`;
  }
  function fit() {  // a little smaller where the place is narrow, but never below 14 px; beyond that it scrolls
    const drawn = picture.firstElementChild;
    drawn.style.zoom = 1;
    const share = picture.clientWidth / drawn.offsetWidth;
    if (share > 0 && share < 1) drawn.style.zoom = Math.max(share, 0.94);
    let place = root;  // heads and lengths stay while cells scroll beneath, so they need the page's own ground
    while (place && /^(transparent|rgba\(0, 0, 0, 0\))$/.test(getComputedStyle(place).backgroundColor))
      place = place.parentElement;
    root.style.setProperty("--ground", place ? getComputedStyle(place).backgroundColor : "Canvas");
    root.style.setProperty("--head", `${drawn.querySelector("th").offsetWidth}px`);
  }
  function aim() {  // where it scrolls, begin at the token before the round
    fit();
    const heads = picture.querySelector("tr").children;
    picture.scrollLeft = heads[data.lead].offsetLeft - heads[0].offsetWidth - heads[1].offsetWidth - 8;
  }
  const strip = root.querySelector(".specdec-strip");
  if (strip.firstChild) {
    const fold = document.createElement("details");
    make("summary", fold).textContent = data.glance;
    strip.replaceWith(fold);
    fold.append(strip);
    root.insertBefore(fold, stage.nextSibling);
  }
  show(0);
  let width = -1;
  new ResizeObserver(() => {
    if (width === stage.clientWidth) return;
    width = stage.clientWidth;
    aim();
  }).observe(stage);
}
"""
