/**
 * Packs the page's modules into one script for shared files, src/conceptlens/web/share/packed.js. It is committed, so that
 * users need no node. Its first line holds the SHA-256 of the sources: tests/web/share/test_packed.py notices when they
 * have changed. With --check nothing is written, and a file that is not up to date is an error.
 */
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const client = join(root, "src/conceptlens/web/client");
const target = join(root, "src/conceptlens/web/share/packed.js");

/** The SHA-256 of every script of the page, by path; packed_sources() of web/share/page.py computes the same. */
function digest() {
  const hash = createHash("sha256");
  const names = readdirSync(client, { recursive: true }).map((name) => String(name).replaceAll("\\", "/"));
  for (const name of names.filter((each) => each.endsWith(".js")).sort())
    hash.update(`${name}\0`).update(readFileSync(join(client, name))).update("\0");
  return hash.digest("hex");
}

/** A shared file has no server: its own transport stands in the place of the one that asks a server. */
const answersFromItself = {
  name: "answers from itself",
  setup(context) {
    context.onResolve({ filter: /\/transport\.js$/ }, ({ importer }) =>
      importer.includes("/share/") ? null : { path: join(client, "js/share/transport.js") },
    );
  },
};

const { outputFiles } = await build({
  entryPoints: [join(client, "js/main.js")],
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none", // page.py puts the licenses before it
  plugins: [answersFromItself],
  write: false,
});
const text = `// sources ${digest()}\n${outputFiles[0].text}`;
if (!process.argv.includes("--check")) writeFileSync(target, text);
else if (readFileSync(target, "utf8") !== text) {
  console.error("src/conceptlens/web/share/packed.js is not up to date: run `make pack-web`.");
  process.exit(1);
}
