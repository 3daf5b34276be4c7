// Random edits applied by VS Code's own document class: reads {seed, texts, inserts} as JSON on stdin,
// writes the edits with the text after each. Positions include the impossible.
const { TextDocument } = require("vscode-languageserver-textdocument");
const input = JSON.parse(require("fs").readFileSync(0));
let state = input.seed;
const random = (n) => {
  state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
  return (state >>> 8) % n;
};
function pick(document) {
  const kind = random(8);
  if (kind === 0) return { line: document.lineCount + random(2), character: random(3) };
  const line = random(document.lineCount);
  const length = document.offsetAt({ line, character: 1e6 }) - document.offsetAt({ line, character: 0 });
  if (kind === 1) return { line, character: length + 1 + random(4) };
  return { line, character: random(length + 1) };
}
const cases = input.texts.map((text, index) => {
  let document = TextDocument.create("file:///a", "plaintext", 0, text);
  const edits = input.inserts[index].map((insert, n) => {
    const range = { start: pick(document), end: pick(document) };
    const offsets = [document.offsetAt(range.start), document.offsetAt(range.end)];
    const given = JSON.parse(JSON.stringify(range));
    const out = TextDocument.update(document, [{ range, text: insert }], n + 1).getText();
    // Its table of lines goes wrong after an edit beyond the last line; a new document has a right one.
    document = TextDocument.create("file:///a", "plaintext", n + 1, out);
    return { range: given, offsets, text: insert, out, lines: document.lineCount };
  });
  return { text, edits };
});
console.log(JSON.stringify(cases));
