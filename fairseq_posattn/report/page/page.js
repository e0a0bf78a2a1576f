// Shows the example that is selected in the report's lists, and draws its attention maps.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const SCALE = [[255, 255, 255], [214, 230, 244], [133, 188, 220], [48, 129, 189], [8, 64, 129], [5, 28, 66]];
const MEAN = "mean";
const BEGIN = "<s>";
const KINDS = {
  attention: { title: "encoder", rows: "queries", columns: "keys", text: "each row is a query, its columns the keys it attends to" },
  decoder_attention: { title: "decoder", rows: "predicted", columns: "read", text: "each row is a piece that is predicted, its columns the pieces that were read before" },
  cross_attention: { title: "decoder to source", rows: "predicted", columns: "source", text: "each row is a piece that is predicted, its columns the pieces of the source" },
};

function showExamples(examples) {
  const lists = Object.fromEntries(
    ["system", "sentence", "kind", "layer", "head"].map((name) => [name, document.getElementById(`choose-${name}`)])
  );
  const articles = document.querySelectorAll(".example");
  const map = new AttentionMap(document.getElementById("attention"), document.getElementById("tooltip"));

  function systemChanged() {
    const before = examples[lists.sentence.value]?.number;
    const own = examples.map((example, k) => [k, example]).filter(([, e]) => String(e.system) === lists.system.value);
    fill(lists.sentence, own.map(([k, example]) => [k, `${example.number}: ${shortened(example.words.join(" "))}`]));
    const same = own.find(([, example]) => example.number === before);
    if (same) {
      lists.sentence.value = same[0];
    }
    sentenceChanged();
  }

  function sentenceChanged() {
    const chosen = Number(lists.sentence.value);
    articles.forEach((article, k) => (article.hidden = k !== chosen));
    const kinds = Object.keys(KINDS).filter((kind) => examples[chosen][kind]);
    fill(lists.kind, kinds.map((kind) => [kind, KINDS[kind].title]), lists.kind.value);
    kindChanged();
  }

  function kindChanged() {
    const { layers, heads } = examples[lists.sentence.value][lists.kind.value];
    fill(lists.layer, counted(layers), lists.layer.value || layers - 1);
    fill(lists.head, [[MEAN, MEAN], ...counted(heads)], lists.head.value);
    draw();
  }

  function draw() {
    map.draw(new Weights(examples[lists.sentence.value], lists.kind.value), Number(lists.layer.value), lists.head.value);
  }

  function chooseHead(head) {
    lists.head.value = head;
    draw();
  }

  map.onHead = chooseHead;
  lists.system.addEventListener("change", systemChanged);
  lists.sentence.addEventListener("change", sentenceChanged);
  lists.kind.addEventListener("change", kindChanged);
  lists.layer.addEventListener("change", draw);
  lists.head.addEventListener("change", draw);
  systemChanged();
}

/** Fills a list with pairs of value and text, and keeps the selection if it still exists. */
function fill(list, pairs, choice = null) {
  list.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
  if (pairs.some(([value]) => String(value) === String(choice))) {
    list.value = choice;
  }
}

function counted(number) {
  return Array.from({ length: number }, (_, k) => [k, k]);
}

function shortened(text) {
  return text.length > 44 ? `${text.slice(0, 42)} …` : text;
}

/** One kind of attention weights of an example, as bytes: layers x heads x queries x keys. */
class Weights {
  constructor(example, kind) {
    Object.assign(this, example[kind]);
    this.kind = KINDS[kind];
    const { pieces, target_pieces: target } = example;
    this.rows = kind === "attention" ? pieces : target;
    this.columns = kind === "decoder_attention" ? [BEGIN, ...target.slice(0, -1)] : pieces;
    this.largest ??= 1;
    this.bytes = Uint8Array.from(atob(this.weights), (letter) => letter.charCodeAt(0));
  }

  /** Returns the weights of one head, or the mean of all: queries x keys, in row-major order. */
  of(layer, head) {
    const size = this.queries * this.keys;
    const heads = head === MEAN ? counted(this.heads).map(([k]) => k) : [Number(head)];
    const starts = heads.map((k) => (layer * this.heads + k) * size);
    return Float64Array.from({ length: size }, (_, k) => {
      const sum = starts.reduce((total, start) => total + this.bytes[start + k], 0);
      return (this.largest * sum) / (255 * starts.length);
    });
  }
}

class AttentionMap {
  constructor(figure, tooltip) {
    this.figure = figure;
    this.tooltip = tooltip;
    this.svg = figure.querySelector(".map");
    this.heads = figure.querySelector(".heads");
    this.caption = figure.querySelector("figcaption");
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  draw(weights, layer, head) {
    this.weights = weights;
    this.values = weights.of(layer, head);
    this.svg.replaceChildren();
    const top = this.values.reduce((a, b) => Math.max(a, b), 0);
    const place = this.layOut(weights);
    this.drawCells(place, top);
    this.drawLabels(place);
    this.drawScale(place, top);
    this.drawHeads(layer, head);
    const which = head === MEAN ? "mean of the heads" : `head ${head}`;
    this.caption.textContent =
      `Attention of layer ${layer}, ${which}: ${weights.kind.text}.`;
    this.svg.setAttribute("aria-label", this.caption.textContent);
  }

  /** Computes the layout: about 600 pixels for the cells, plus the space that labels need. */
  layOut({ rows, columns }) {
    const cell = Math.max(11, Math.min(34, Math.round(620 / Math.max(rows.length, columns.length))));
    const font = Math.min(13, cell * 0.9);
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `${font}px ${getComputedStyle(this.svg).fontFamily}`;
    const longest = (pieces) => Math.max(...pieces.map((piece) => pen.measureText(piece).width));
    const slant = cell < 18 ? 90 : 45;
    const up = slant === 90 ? longest(columns) : (longest(columns) + font) * Math.SQRT1_2;
    const across = slant === 90 ? 0 : up;
    const [left, head] = [longest(rows) + 34, up + 32];
    const [wide, high] = [cell * columns.length, cell * rows.length];
    const [width, height] = [left + wide + Math.max(across, 84) + 8, head + high + 8];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    return { cell, font, slant, left, head, wide, high };
  }

  drawCells({ cell, left, head, wide, high }, top) {
    const { keys } = this.weights;
    this.values.forEach((value, k) => {
      const [query, key] = [Math.floor(k / keys), k % keys];
      const box = { x: left + key * cell, y: head + query * cell, width: cell, height: cell };
      const rect = this.add("rect", { ...box, class: "cell", fill: colour(top ? value / top : 0) });
      rect.dataset.query = query;
      rect.dataset.key = key;
    });
    this.add("rect", { class: "frame", x: left, y: head, width: wide, height: high });
  }

  drawLabels({ cell, font, slant, left, head, wide, high }) {
    const { rows, columns, kind } = this.weights;
    rows.forEach((piece, k) => {
      const row = { x: left - 8, y: head + (k + 0.5) * cell, "text-anchor": "end", "dominant-baseline": "central" };
      this.add("text", { ...row, class: `query query-${k}`, "font-size": font }, piece);
    });
    columns.forEach((piece, k) => {
      const [x, y] = [left + (k + 0.5) * cell + (slant === 45 ? 3 : 0), head - 8];
      const turned = { x, y, transform: `rotate(${-slant} ${x} ${y})`, "dominant-baseline": slant === 90 ? "central" : "auto" };
      this.add("text", { ...turned, class: `key key-${k}`, "font-size": font }, piece);
    });
    const axis = { class: "axis", "font-size": 12, "text-anchor": "middle" };
    this.add("text", { ...axis, x: left + wide / 2, y: 12 }, kind.columns);
    const [x, y] = [12, head + high / 2];
    this.add("text", { ...axis, x, y, transform: `rotate(-90 ${x} ${y})` }, kind.rows);
  }

  drawScale({ left, head, wide, high }, top) {
    const [x, height, steps] = [left + wide + 28, Math.min(high, 180), 60];
    for (let k = 0; k < steps; k++) {
      const box = { x, y: head + height * (1 - (k + 1) / steps), width: 13, height: height / steps + 0.5 };
      this.add("rect", { ...box, fill: colour((k + 0.5) / steps) });
    }
    this.add("rect", { class: "frame", x, y: head, width: 13, height });
    for (const share of top ? [0, 0.5, 1] : [0]) {
      const y = head + height * (1 - share);
      const tick = { class: "tick", x: x + 19, y, "font-size": 11.5, "dominant-baseline": "central" };
      this.add("text", tick, (share * top).toFixed(2));
    }
  }

  /** Draws a thumbnail of each head of the layer, as buttons to select the head. */
  drawHeads(layer, chosen) {
    const all = [MEAN, ...counted(this.weights.heads).map(([k]) => String(k))];
    this.heads.replaceChildren(...all.map((head) => this.button(layer, head, head === chosen)));
  }

  button(layer, head, isChosen) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", isChosen);
    button.append(thumbnail(this.weights.of(layer, head), this.weights.keys), head === MEAN ? MEAN : `head ${head}`);
    button.addEventListener("click", () => {
      this.onHead(head);
      this.heads.querySelector("[aria-pressed=true]").focus();
    });
    return button;
  }

  point(event) {
    this.svg.querySelectorAll(".chosen").forEach((text) => text.classList.remove("chosen"));
    const { query, key } = event?.target.dataset ?? {};
    this.tooltip.hidden = key === undefined;
    if (key === undefined) {
      return;
    }
    for (const name of [`.query-${query}`, `.key-${key}`]) {
      this.svg.querySelector(name).classList.add("chosen");
    }
    const value = document.createElement("b");
    value.textContent = this.values[query * this.weights.keys + Number(key)].toFixed(2);
    this.tooltip.replaceChildren(`${this.weights.rows[query]} → ${this.weights.columns[key]}`, value);
    const right = Math.min(event.clientX + 14, innerWidth - this.tooltip.offsetWidth - 8);
    this.tooltip.style.left = `${Math.max(8, right)}px`;
    this.tooltip.style.top = `${event.clientY + 18}px`;
  }

  add(name, attributes, text = "") {
    const element = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    element.textContent = text;
    return this.svg.appendChild(element);
  }
}

function thumbnail(values, width) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = values.length / width;
  const top = values.reduce((a, b) => Math.max(a, b), 0) || 1;
  const pixels = Array.from(values, (value) => [...mixed(value / top), 255]).flat();
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels), width), 0, 0);
  return canvas;
}

function colour(share) {
  return `rgb(${mixed(share).map(Math.round).join(" ")})`;
}

/** Returns the RGB values of a colour between white (0) and dark blue (1). */
function mixed(share) {
  const place = share * (SCALE.length - 1);
  const k = Math.min(Math.floor(place), SCALE.length - 2);
  return SCALE[k].map((from, c) => from + (SCALE[k + 1][c] - from) * (place - k));
}

const data = document.getElementById("examples-data");
if (data) {
  showExamples(JSON.parse(data.textContent));
}
