// page.js - run a page's script on a document of ten lines, and print the elements that it makes.
// SPDX-License-Identifier: Apache-2.0
"use strict";
const fs = require("fs"), vm = require("vm");
const page = fs.readFileSync(process.argv[2], "utf8"), ids = new Map();

class Element {
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; this.textContent = ""; this.className = ""; }
  appendChild(child) { this.children.push(child); }
  setAttribute(name, value) {
    if (String(value).includes("NaN") || String(value).includes("undefined") || value === null)
      throw new Error(`${this.tag}: ${name}="${value}"`);
    this.attributes[name] = String(value);
  }
  remove() { this.removed = true; }
}

const document = {
  createElement: (tag) => new Element(tag),
  createElementNS: (space, tag) => new Element(tag),
  getElementById: (id) => {
    if (!ids.has(id)) ids.set(id, new Element("#" + id));
    return ids.get(id);
  },
};

// print - a line an element: tag, class, text, as JSON, so that no text can be taken for another.
function print(element) {
  console.log(JSON.stringify([element.tag, element.className || element.attributes.class || "", element.textContent]));
  element.children.forEach(print);
}

document.getElementById("data").textContent = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(page)[1];
vm.runInNewContext(/\n<script>(.*)<\/script>\n<\/body>/s.exec(page)[1], { document });
if (!ids.get("unread").removed) throw new Error("the note stays that the script has not run");
["above", "pictures", "below"].forEach((id) => print(ids.get(id)));
