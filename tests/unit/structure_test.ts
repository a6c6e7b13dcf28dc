/** The rules of the house that the compiler does not hold: who may import whom, and what only one place may do. */
import assert from "node:assert/strict";

/** The text of the sources by path from the project's root. */
type Tree = ReadonlyMap<string, string>;

const ROOT = new URL("../../", import.meta.url);
const PRODUCT = ["main.ts", "commands", "core", "workers", "backends", "platform"];
const ALL = [...PRODUCT, "build", "demo", "tests"];

/** What each part may import of the project, by the beginning of the path; a part may always import itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  "platform/": [],
  "backends/": ["platform/", "core/model.ts"],
  "core/": ["platform/"],
  "workers/": ["platform/", "backends/", "core/model.ts", "core/family_link.ts", "core/run_program.ts"],
  "commands/": [
    "platform/",
    "core/",
    "workers/",
    "backends/file_limit.ts",
    "backends/registry.ts",
    "backends/rehearsal/mod.ts",
    "backends/preflight/mod.ts",
    "backends/process_runner.ts",
    "backends/oom_score.ts",
  ],
  "main.ts": [
    "platform/",
    "core/config/mod.ts",
    "core/config/help.ts",
    "commands/logging.ts",
    "commands/mod.ts",
    "commands/privileges.ts",
  ],
};

/** What only one place may do, and where that is. */
const ONLY_THERE: readonly { readonly what: RegExp; readonly name: string; readonly where: readonly string[] }[] = [
  { what: /\bnew Deno\.Command\(/, name: "starts a program", where: ["backends/process_runner.ts"] },
  {
    what: /\b(setTimeout|setInterval|Date\.now|performance\.now)\(|\bnew Date\(\)/,
    name: "reads a clock or sets a timer",
    // The page's script is text for a browser, which has no other clock.
    where: ["platform/clock.ts", "core/page/script.ts"],
  },
  { what: /\bconsole\.\w+\(|\bDeno\.std(out|err)\.write/, name: "prints", where: ["platform/output.ts"] },
];

function readTree(paths: readonly string[]): Tree {
  const tree = new Map<string, string>();
  const read = (path: string) => {
    const url = new URL(path, ROOT);
    if (Deno.statSync(url).isFile) {
      if (path.endsWith(".ts")) tree.set(path, Deno.readTextFileSync(url));
      return;
    }
    for (const { name } of Deno.readDirSync(url)) read(`${path}/${name}`);
  };
  for (const path of paths) read(path);
  return tree;
}

/** The modules that a source names: those of the project as paths from its root, packages as they are written. */
function importsOf(path: string, text: string): string[] {
  const specifiers = [
    ...text.matchAll(/^(?:import|export)\b[^;"']*?\bfrom "([^"]+)"/gm),
    ...text.matchAll(/^import "([^"]+)"/gm),
    ...text.matchAll(/\bimport\("([^"]+)"\)/g),
  ].map(([, specifier]) => specifier!);
  return specifiers.map((specifier) =>
    specifier.startsWith(".") ? new URL(specifier, `file:///${path}`).pathname.slice(1) : specifier
  );
}

function isOfProject(imported: string): boolean {
  return imported.endsWith(".ts");
}

function forbiddenImports(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) => {
    const part = Object.keys(MAY_IMPORT).find((prefix) => path.startsWith(prefix));
    if (part === undefined) return [];
    return importsOf(path, text)
      .filter((imported) =>
        isOfProject(imported) && ![part, ...MAY_IMPORT[part]!].some((to) => imported.startsWith(to))
      )
      .map((imported) => `${path} imports ${imported}`);
  });
}

/** Packages are named in the import map of deno.json, in one line each, and nowhere else. */
function unmappedPackages(tree: Tree, map: readonly string[]): string[] {
  return [...tree].flatMap(([path, text]) =>
    importsOf(path, text)
      .filter((imported) => !isOfProject(imported) && !imported.startsWith("node:") && !map.includes(imported))
      .map((imported) => `${path} imports ${imported}`)
  );
}

/** The modules that a running proxy loads in any case, and what reads from an API server. */
const LOADED_BY_A_PROXY: readonly string[] = [
  "main.ts",
  "workers/start.ts",
  "workers/family.ts",
  "backends/file_limit.ts",
  "backends/oom_score.ts",
  "core/proxy.ts",
  "core/observe/neighbours.ts",
  "core/control/process.ts",
  "core/control/socket.ts",
  "core/control/serve.ts",
  "core/sources/kubernetes/mod.ts",
  "core/sources/kubernetes/plugin_program.ts",
];
/** Packages and modules of Node that cost little (docs/performance.md); any other takes a megabyte or more of each isolate. */
const LIGHT: readonly string[] = ["ipaddr.js", "@noble/hashes/sha2.js", "node:os", "node:path", "node:v8"];
/** What a proxy loads when it is first asked for. */
const LOADED_LATE: readonly string[] = [
  "core/answers/",
  "core/config/help.ts",
  "core/config/yaml_file.ts",
  "core/control/server.ts",
  "core/installation/",
  "core/manual/",
  "core/page/",
  "core/preflight/",
  "core/serving/",
  "core/sources/grpc/",
  "core/sources/manifests/",
  "core/sources/state/",
  "core/store/",
];

/** What the entries import statically, directly or not, that is not to be in the memory of every proxy; with the importer. */
function heavyImports(tree: Tree, entries: readonly string[]): string[] {
  const found: string[] = [];
  const seen = new Set(entries);
  // A Set can be added to while it is walked.
  for (const path of seen) {
    const text = (tree.get(path) ?? "").replace(/\bimport\(/g, "").replace(/^(import|export) type\b[^;]*;/gm, "");
    for (const imported of importsOf(path, text)) {
      const isHeavy = isOfProject(imported)
        ? LOADED_LATE.some((late) => imported.startsWith(late))
        : !LIGHT.includes(imported);
      if (isHeavy) found.push(`${path} imports ${imported}`);
      else if (isOfProject(imported)) seen.add(imported);
    }
  }
  return found.sort();
}

function outOfPlace(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) =>
    ONLY_THERE.filter(({ what, where }) => what.test(withoutComments(text)) && !where.includes(path))
      .map(({ name }) => `${path} ${name}`)
  );
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}

function defaultExports(tree: Tree): string[] {
  return [...tree].filter(([, text]) => /^export default\b|\bas default\b/m.test(withoutComments(text)))
    .map(([path]) => path);
}

/** Commands that start programs, or load what does, without saying so: they would have given up the right to. */
function secretStarters(tree: Tree): string[] {
  return [...tree].filter(([path, text]) =>
    path.startsWith("commands/") && /: Command = \{|\): Command \{/.test(text) &&
    !text.includes("startsPrograms: true") &&
    /process_runner\.ts"|\/service\.ts"|workers\/start\.ts"/.test(text)
  ).map(([path]) => path);
}

function oddNames(tree: Tree): string[] {
  return [...tree.keys()].filter((path) => !/^([a-z0-9_]+\/)*[a-z0-9_]+\.ts$/.test(path));
}

/** Rings of modules that need each other's values; types may refer to each other as they like. */
function rings(tree: Tree): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]) => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(" → "));
    if (done.has(path)) return;
    done.add(path);
    const text = (tree.get(path) ?? "").replace(/^(import|export) type\b[^;]*;/gm, "");
    for (const imported of importsOf(path, text)) if (tree.has(imported)) visit(imported, [...way, path]);
  };
  for (const path of tree.keys()) visit(path, []);
  return found;
}

const product = readTree(PRODUCT);

Deno.test("imports go one way: platform, backends and core, workers, the command line", () => {
  assert.deepEqual(forbiddenImports(product), []);
  assert.deepEqual(rings(product), []);
});

Deno.test("packages come through the import map", () => {
  const { imports } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT)));
  assert.deepEqual(unmappedPackages(readTree(ALL), Object.keys(imports)), []);
});

/** CommonJS packages of which the bundle would get the default export alone. */
function lateCommonJs(tree: Tree): string[] {
  return [...tree].filter(([, text]) => /\bimport\("(yaml|commander|ipaddr\.js)"\)/.test(text)).map(([path]) => path);
}

Deno.test("a running proxy loads nothing before it is needed that takes much memory", () => {
  assert.deepEqual(LOADED_BY_A_PROXY.filter((path) => !product.has(path)), []);
  assert.deepEqual(heavyImports(product, LOADED_BY_A_PROXY), []);
  assert.deepEqual(lateCommonJs(product), []);
});

Deno.test("one place starts programs, one reads the clock, one prints", () => {
  assert.deepEqual(outOfPlace(product), []);
  assert.deepEqual(secretStarters(product), []);
});

Deno.test("no module has a default export, and files are named in snake_case", () => {
  const all = readTree(ALL);
  assert.deepEqual(defaultExports(all), []);
  assert.deepEqual(oddNames(all), []);
});

Deno.test("each rule finds what breaks it", () => {
  const tree = (files: Record<string, string>): Tree => new Map(Object.entries(files));
  assert.deepEqual(
    forbiddenImports(tree({
      "core/a.ts": 'import {\n  x,\n} from "../backends/registry.ts";\nimport { y } from "../platform/log.ts";',
      "core/sources/b.ts": 'export type { z } from "../../workers/protocol.ts";',
      "backends/ipvs/c.ts": 'import type { m } from "../../core/model.ts";\nawait import("../../core/channel.ts");',
      "platform/d.ts": 'import "../core/model.ts";',
      "workers/e.ts": 'import { t } from "../tests/fakes/clock.ts";',
    })),
    [
      "core/a.ts imports backends/registry.ts",
      "core/sources/b.ts imports workers/protocol.ts",
      "backends/ipvs/c.ts imports core/channel.ts",
      "platform/d.ts imports core/model.ts",
      "workers/e.ts imports tests/fakes/clock.ts",
    ],
  );
  const packages = tree({ "core/a.ts": 'import y from "yaml";\nimport z from "npm:zod";\nimport "node:os";' });
  assert.deepEqual(unmappedPackages(packages, ["yaml"]), ["core/a.ts imports npm:zod"]);
  assert.deepEqual(
    heavyImports(
      tree({
        "main.ts": 'import {\n  a,\n} from "./core/a.ts";\nconst { help } = await import("./core/config/help.ts");',
        "core/a.ts": 'import type { User } from "@kubernetes/client-node";\nexport { b } from "./b.ts";',
        "core/b.ts": 'import { parse, type Node } from "yaml";\nimport "node:path";\nawait import("node:http2");',
        "core/c.ts": 'import { readFileSync } from "node:fs";',
        "workers/d.ts": 'import { page } from "../core/page/mod.ts";\nimport { b } from "../core/b.ts";',
      }),
      ["main.ts", "workers/d.ts"],
    ),
    ["core/b.ts imports yaml", "workers/d.ts imports core/page/mod.ts"],
  );
  assert.deepEqual(lateCommonJs(tree({ "core/a.ts": 'const { stringify } = await import("yaml");' })), ["core/a.ts"]);
  assert.deepEqual(
    outOfPlace(tree({
      "core/a.ts": "const t = Date.now();",
      "core/b.ts": "// never setTimeout()\n/** nor console.log() */",
      "workers/c.ts": 'await new Deno.Command("nft").output();',
      "platform/clock.ts": "setTimeout(f, 1);",
    })),
    ["core/a.ts reads a clock or sets a timer", "workers/c.ts starts a program"],
  );
  const command =
    'export const c: Command = {\n  name: "c",\n  start() { await import("../backends/process_runner.ts"); }';
  assert.deepEqual(
    secretStarters(tree({ "commands/a.ts": command, "commands/b.ts": `${command}, startsPrograms: true };` })),
    ["commands/a.ts"],
  );
  assert.deepEqual(
    rings(tree({
      "core/a.ts": 'import { b } from "./b.ts";',
      "core/b.ts": 'import { c } from "./c.ts";\nimport type { a } from "./a.ts";',
      "core/c.ts": 'import { b } from "./b.ts";',
    })),
    ["core/b.ts → core/c.ts → core/b.ts"],
  );
  assert.deepEqual(defaultExports(tree({ "a.ts": "export default 1;", "b.ts": "export const c = 1;" })), ["a.ts"]);
  assert.deepEqual(oddNames(tree({ "core/fooBar.ts": "", "core/foo-bar.ts": "", "core/foo_bar.ts": "" })), [
    "core/fooBar.ts",
    "core/foo-bar.ts",
  ]);
});
