// Which Lua files are not as StyLua would write them: node stylua.mjs CONFIG FILE... prints their
// names; `--fix` in front writes them. StyLua comes as WebAssembly from npm, without its program.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [first, ...others] = process.argv.slice(2);
const isFixing = first === "--fix";
const [config, ...files] = isFixing ? others : [first, ...others];
// Installed below the folder that we are started in, not beside this file.
const stylua = createRequire(`${process.cwd()}/`)("@johnnymorganz/stylua");

const KINDS = {
  syntax: stylua.LuaVersion,
  indent_type: stylua.IndentType,
  quote_style: stylua.QuoteStyle,
};

function options() {
  const made = stylua.Config.new();
  for (const [, key, value] of readFileSync(config, "utf8").matchAll(/^(\w+) = "?(\w+)"?$/gm)) {
    made[key] = key in KINDS ? KINDS[key][value] : Number(value);
  }
  return made;
}

for (const file of files) {
  const text = readFileSync(file, "utf8");
  const formatted = stylua.formatCode(text, options(), undefined, stylua.OutputVerification.Full);
  if (formatted !== text) {
    console.log(file);
    if (isFixing) writeFileSync(file, formatted);
  }
}
