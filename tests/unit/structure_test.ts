/** Architecture rules that the compiler does not check: permitted imports, and effects that only one module may have. */
import assert from "node:assert/strict";
import { importsOf, isOfProject, readTree, type Tree } from "../../build/imports.ts";

const ROOT = new URL("../../", import.meta.url);
const PRODUCT = [
  ...[
    "main.ts",
    "cli",
    "node",
    "serve",
    "answers",
    "observe",
    "sources",
    "kpng",
    "config",
    "features",
    "workers",
    "backends",
    "relay",
    "core",
    "platform",
  ],
];
const ALL = [...PRODUCT, "build", "demo", "tests"];

/** The rooms that a feature may import besides features/contract.ts: nothing above it, and no other feature. */
const FEATURE_MAY_IMPORT = [
  ...["platform", "platform/shapes", "platform/metrics", "platform/schema"],
  ...["core/", "backends/contract"],
  // A feature that takes the place of the source serves other nodes.
  ...["kpng/address", "kpng/server", "kpng/store"],
];
/** The part of a feature that runs in a worker: `worker.ts`, or a folder `worker`. */
const WORKER_PART = /^features\/\w+\/worker(\.ts$|\/)/;
/** The rooms that this part may import in addition, because it runs tools. */
const WORKER_PART_MAY_IMPORT = ["backends/foreign", "backends/host", "backends/tools"];
/**
 * Modules beside a mod.ts that a file or a room may import. A worker needs the calls of features, and the rest of a feature
 * would be in the memory of both.
 */
const OTHER_ENTRIES: readonly { readonly from: RegExp; readonly to: RegExp }[] = [
  { from: /^features\/\w+\//, to: /^features\/contract\.ts$/ },
  { from: /^features\/registry\.ts$/, to: /^features\/\w+\/feature\.ts$/ },
  { from: /^features\/calls\.ts$/, to: /^features\/\w+\/calls\.ts$/ },
  { from: /^workers\//, to: /^features\/calls\.ts$/ },
  // `sluice kubeconfig` creates the objects of a site.
  { from: /^cli\/commands\//, to: /^features\/site\/lease\.ts$/ },
  { from: /^cli\/commands\/serve\.ts$/, to: /^serve\/run\.ts$/ },
  { from: /^serve\//, to: /^workers\/serving\.ts$/ },
];

/**
 * The rooms and what each may import of the project, from the bottom up: a room imports only rooms above it in this table.
 * A name with a slash at its end stands for all rooms below it. A room is a folder; its own files always see each other.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  "platform": [],
  "platform/shapes": [],
  "platform/http": ["platform"],
  "platform/metrics": ["platform"],
  "platform/schema": ["platform"],
  "core/problems": ["platform"],
  "core/model": ["platform", "platform/shapes", "core/problems"],
  "core/objects": ["platform", "platform/shapes", "core/problems", "core/model"],
  "core/tracking": ["platform", "core/problems", "core/model", "core/objects"],
  "core/planning": ["platform", "core/problems", "core/model", "core/objects", "core/tracking"],
  "core/channel": ["platform", "core/problems", "core/model"],
  "relay": ["platform", "core/model"],
  "backends/tools": ["platform"],
  "backends/contract": ["platform", "core/problems", "core/model", "core/objects", "backends/tools"],
  "backends/host": ["platform", "core/problems", "core/model", "backends/tools"],
  "backends/foreign": ["platform", "backends/tools"],
  "backends/reconcile": ["platform", "core/model", "backends/tools"],
  "backends/traffic": ["platform", "core/model"],
  "backends/xtables": [
    ...["platform", "core/model", "backends/contract", "backends/host", "backends/reconcile", "backends/tools"],
  ],
  "backends/iptables": [
    ...["platform", "core/model", "backends/contract", "backends/host", "backends/reconcile", "backends/tools"],
    ...["backends/traffic", "backends/xtables"],
  ],
  "backends/userspace": ["core/model", "backends/contract", "backends/iptables", "backends/xtables"],
  "backends/nftables": [
    ...["platform", "core/model", "backends/contract", "backends/host", "backends/reconcile", "backends/tools"],
    "backends/traffic",
  ],
  "backends/ipvs": [
    ...["platform", "core/model", "backends/contract", "backends/host", "backends/reconcile", "backends/tools"],
    ...["backends/traffic", "backends/xtables"],
  ],
  "backends": ["platform", "core/model", "backends/"],
  "backends/dry_run": ["platform", "core/model", "backends", "backends/contract", "backends/tools"],
  "backends/preflight": [
    ...["platform", "core/problems", "core/model"],
    ...["backends", "backends/contract", "backends/foreign", "backends/host", "backends/tools"],
  ],
  "kpng/address": ["platform"],
  "kpng/codec": ["platform"],
  "kpng/transport": ["platform", "kpng/codec"],
  "kpng/store": ["platform", "core/problems", "core/objects", "core/tracking"],
  "kpng/messages": ["platform", "core/objects", "kpng/codec", "kpng/store"],
  "kpng/views": ["platform", "core/", "kpng/codec", "kpng/messages", "kpng/store"],
  "kpng/receiving": ["platform", "core/", "kpng/messages", "kpng/store", "kpng/views"],
  "kpng/server": ["platform", "core/", "kpng/"],
  "kpng/client": ["platform", "kpng/address", "kpng/transport"],
  "features": FEATURE_MAY_IMPORT,
  "workers/cri": ["platform", "core/objects", "kpng/client", "kpng/codec", "kpng/transport"],
  "workers": [
    ...["platform", "platform/shapes", "core/problems", "core/model", "core/channel", "core/objects"],
    ...["backends", "backends/contract", "backends/host", "backends/tools", "backends/xtables", "features", "relay"],
    ...["kpng/server", "workers/cri"],
  ],
  "config": [
    ...["platform", "platform/schema", "core/", "backends", "backends/contract", "kpng/address", "features"],
  ],
  "observe/process": ["platform", "platform/metrics", "core/objects", "core/problems"],
  "observe": [
    ...[
      "observe/process",
      "platform",
      "platform/http",
      "platform/metrics",
      "core/",
      "backends",
      "backends/contract",
      "features",
      "config",
    ],
  ],
  "sources/kubernetes": ["platform", "core/", "config"],
  "sources/preflight": ["platform", "core/", "features", "sources/kubernetes"],
  "sources/identity": ["platform", "core/objects", "sources/kubernetes"],
  "sources/manifests": ["platform", "core/"],
  "sources/state": ["platform", "core/", "kpng/", "sources/manifests"],
  "sources/kept": ["platform", "platform/shapes", "core/"],
  "sources/grpc": ["platform", "core/", "kpng/"],
  "sources": ["platform", "core/", "features", "config", "kpng/address", "sources/"],
  "serve": [
    ...["platform", "platform/http", "platform/metrics", "core/objects", "core/problems", "config", "features"],
    ...["kpng/address", "kpng/server", "kpng/store", "observe/process", "sources"],
  ],
  "answers": ["platform", "core/", "backends/contract", "config", "observe", "sources"],
  "answers/status": ["platform", "core/", "backends", "features", "observe", "observe/process"],
  "answers/control": ["platform", "platform/http", "observe", "answers", "answers/status"],
  "answers/page": [
    ...["platform", "platform/http", "core/model", "core/problems"],
    ...["observe", "answers", "answers/control", "answers/status"],
  ],
  "node": [
    "platform",
    "platform/http",
    "platform/metrics",
    "features",
    "core/",
    "config",
    "observe",
    "observe/process",
    "sources",
    "answers",
    "answers/",
  ],
  "cli/cluster": ["platform", "platform/shapes", "backends/tools", "answers/status"],
  "cli/text": ["platform", "core/model", "answers", "answers/status", "observe", "cli/cluster"],
  "cli/installation": ["platform", "config"],
  "cli/manual": ["platform", "config"],
  "cli/flows": ["platform", "core/model", "backends/tools", "backends/traffic"],
  "cli/commands": [
    ...[
      "platform",
      "core/",
      "config",
      "kpng/",
      "features",
      "observe",
      "observe/",
      "sources",
      "sources/",
      "serve",
      "answers",
      "answers/",
      "node",
      "workers",
    ],
    ...[
      "backends",
      "backends/dry_run",
      "backends/host",
      "backends/preflight",
      "backends/tools",
      "backends/traffic",
      "cli/",
    ],
  ],
  "main": ["platform", "backends", "config", "cli/"],
};

/** Effects that only one module may have, with that module. */
const ONLY_THERE: readonly { readonly what: RegExp; readonly name: string; readonly where: readonly string[] }[] = [
  { what: /\bnew Deno\.Command\(/, name: "starts a program", where: ["backends/tools/process_runner.ts"] },
  {
    what: /\b(setTimeout|setInterval|Date\.now|performance\.now)\(|\bnew Date\(\)/,
    name: "reads a clock or sets a timer",
    // The page's script is text for a browser, which has no other clock.
    where: ["platform/clock.ts", "answers/page/script.ts"],
  },
  { what: /\bconsole\.\w+\(|\bDeno\.std(out|err)\.write/, name: "prints", where: ["platform/output.ts"] },
];

/** The room that a file is in; the file at the root is a room of its own. */
function roomOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : path.replace(/\.ts$/, "");
}

/** The rooms that a room may import, which the table lists by name or by their parent folder. */
function allowedRooms(room: string): string[] {
  const rooms = Object.keys(MAY_IMPORT);
  const below = new Set(rooms.slice(0, rooms.indexOf(room)));
  return (MAY_IMPORT[room] ?? []).flatMap((name) =>
    name.endsWith("/") ? rooms.filter((one) => one.startsWith(name) && below.has(one)) : below.has(name) ? [name] : []
  );
}

/** Imports of rooms that the importer's room may not import, or of a module other than a room's mod.ts. */
function forbiddenImports(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) => {
    const [feature] = /^features\/\w+\//.exec(path) ?? [];
    const room = feature ? "features" : roomOf(path);
    if (MAY_IMPORT[room] === undefined) return [`${path} is in no room`];
    const allowed = [...allowedRooms(room), ...(WORKER_PART.test(path) ? WORKER_PART_MAY_IMPORT : [])];
    const isOwn = (imported: string) => feature ? imported.startsWith(feature) : roomOf(imported) === room;
    return importsOf(path, text)
      .filter((imported) => isOfProject(imported) && !isOwn(imported))
      .filter((imported) => !OTHER_ENTRIES.some(({ from, to }) => from.test(path) && to.test(imported)))
      .filter((imported) => !allowed.includes(roomOf(imported)) || !imported.endsWith("/mod.ts"))
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

/** The modules that every running proxy loads, and those that read from an API server. */
const LOADED_BY_A_PROXY: readonly string[] = [
  "main.ts",
  "workers/mod.ts",
  "workers/family.ts",
  "backends/host/mod.ts",
  "node/mod.ts",
  "observe/mod.ts",
  "answers/control/mod.ts",
  "sources/kubernetes/mod.ts",
];
/** Packages that cost little; any other, and each module of Node, takes up to some megabytes of each isolate (docs/bottlenecks.md). */
const LIGHT: readonly string[] = ["ipaddr.js", "@noble/hashes/sha2.js", "@scure/base"];
/** Modules that a proxy loads on first use. */
const LOADED_LATE: readonly string[] = [
  "backends/iptables/backend.ts",
  "backends/ipvs/backend.ts",
  "backends/nftables/backend.ts",
  "backends/takeover.ts",
  "backends/xtables/",
  "answers/answers.ts",
  "answers/explain.ts",
  "answers/listing.ts",
  "cli/manual/",
  "platform/yaml_tree.ts",
  "answers/control/server.ts",
  "cli/installation/",
  "answers/page/",
  "answers/status/",
  "sources/preflight/",
  "sources/identity/",
  ...["client", "codec", "messages", "receiving", "server", "store", "transport", "views"].map((one) => `kpng/${one}/`),
  "serve/",
  "sources/grpc/",
  "sources/kept/",
  "sources/manifests/",
  "workers/cri/",
  "sources/state/",
  "relay/",
  "workers/relays.ts",
];

/** The parts of a feature that are loaded if it is on, and when its first call arrives. */
const LATE_OF_FEATURES = /^features\/\w+\/(start\.ts$|source\.ts$|worker(\.ts$|\/))/;

/** The imports of a module that are loaded together with it, and those that it loads late. */
function loadedBy(path: string, tree: Tree): string[] {
  return importsOf(path, (tree.get(path) ?? "").replace(/^(import|export) type\b[^;]*;/gm, ""));
}

/** The imports of a module that are loaded together with it. */
function loadedWith(path: string, tree: Tree): string[] {
  const text = (tree.get(path) ?? "").replace(/\bimport\(/g, "");
  return loadedBy(path, new Map([[path, text]]));
}

/** The modules of the project that are loaded with these entries, and with what the modules in `entered` import late. */
function modulesLoaded(tree: Tree, entries: readonly string[], entered: RegExp): Set<string> {
  const found = new Set(entries);
  for (const path of found) {
    const imported = (entered.test(path) ? loadedBy : loadedWith)(path, tree);
    for (const one of imported.filter(isOfProject)) found.add(one);
  }
  return found;
}

/** Where `sluice serve` has its code, beyond what every command loads. */
const OF_SERVE = /^(serve|kpng|core|platform|sources|observe\/process)\/|^workers\/(serving|web_worker|serve)\.ts$/;

/** The modules of a proxy that `sluice serve` or one of its workers loads. */
function foreignToServe(tree: Tree): string[] {
  const ofEveryCommand = modulesLoaded(tree, ["main.ts"], /^$/);
  const ofServe = modulesLoaded(tree, ["serve/run.ts", "workers/serve.ts"], /^(serve|kpng)\//);
  return [...ofServe].filter((path) => !OF_SERVE.test(path) && !ofEveryCommand.has(path));
}

/** The modules of `sluice serve` that a proxy can load, whatever its configuration. */
function foreignToProxy(tree: Tree): string[] {
  const ofProxy = modulesLoaded(tree, ["cli/commands/run.ts", "node/mod.ts"], /^(?!serve\/)/);
  return [...ofProxy].filter((path) => /^serve\/|^workers\/serving\.ts$/.test(path));
}

/** Static imports of the entries, direct or not, that must not be in the memory of every proxy; with the importer. */
function heavyImports(tree: Tree, entries: readonly string[], late: readonly string[] = LOADED_LATE): string[] {
  const found: string[] = [];
  const seen = new Set(entries);
  // A Set may grow during its iteration.
  for (const path of seen) {
    for (const imported of loadedWith(path, tree)) {
      const isHeavy = isOfProject(imported)
        ? late.some((one) => imported.startsWith(one)) || LATE_OF_FEATURES.test(imported)
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

/** Test files that no entry in `tests/rooms` loads, or more than one. */
function notLoadedOnce(entries: Tree, tests: readonly string[]): string[] {
  const loaded = [...entries.values()].flatMap((text) => {
    const [, paths = ""] = /^await loadTests\(([^)]*)\);$/m.exec(text) ?? [];
    return [...paths.matchAll(/"([^"]+)"/g)].map(([, path]) => `tests/${path}`);
  });
  return tests.filter((test) => loaded.filter((path) => test === path || test.startsWith(`${path}/`)).length !== 1);
}

/** Commands that start programs, or load modules that do, without `startsPrograms`: they would lack the permission. */
function secretStarters(tree: Tree): string[] {
  return [...tree].filter(([path, text]) => {
    // A command and what follows it, up to the next one; the imports belong to the first.
    const [before = "", first = "", ...others] = text.split(/(?=: Command = \{|\): Command \{)/);
    return path.startsWith("cli/commands/") && first !== "" &&
      [before + first, ...others].some((command) =>
        !command.includes("startsPrograms: true") &&
        /createProcessRunner|\/service\.ts"|startFamilyWorkers/.test(command)
      );
  }).map(([path]) => path);
}

function oddNames(tree: Tree): string[] {
  return [...tree.keys()].filter((path) => !/^([a-z0-9_]+\/)*[a-z0-9_]+\.ts$/.test(path));
}

/** Doc comments whose first sentence neither names the thing nor starts with a verb. */
function vagueComments(tree: Tree): string[] {
  return [...tree].flatMap(([path, text]) =>
    Array.from(text.matchAll(/^ *\/\*\*\n? (?: *\* )?(What\b.*)$/gm), ([, begin]) => `${path}: ${begin}`)
  );
}

/** Circles of imports between files, those of types and those that are loaded late included. */
function rings(tree: Tree): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: readonly string[]) => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(" → "));
    if (done.has(path)) return;
    done.add(path);
    for (const imported of importsOf(path, tree.get(path)!)) if (tree.has(imported)) visit(imported, [...way, path]);
  };
  for (const path of tree.keys()) visit(path, []);
  return found;
}

const product = readTree(PRODUCT);

Deno.test("rooms import rooms below them, through their mod.ts", () => {
  assert.deepEqual(forbiddenImports(product), []);
  assert.deepEqual(rings(product), []);
});

/** Names of features in the rooms that must not know any, as `FILE: NAME`. */
function featureWords(tree: Tree): string[] {
  const names = [...tree.keys()].flatMap((path) => /^features\/(\w+)\/feature\.ts$/.exec(path)?.[1] ?? []);
  // `traffic` is also a word of Kubernetes: traffic policy.
  const words = new RegExp(names.filter((name) => name !== "traffic").join("|").replaceAll("_", "[_ -]?"), "i");
  return [...tree].filter(([path]) => /^(core|workers)\//.test(path))
    .flatMap(([path, text]) => (words.exec(text) ?? []).map((word) => `${path}: ${word}`));
}

Deno.test("core and workers know no feature", () => {
  assert.deepEqual(featureWords(product), []);
  const withWord = new Map([["features/toy_one/feature.ts", ""], ["core/a.ts", "const toyOne = 1;"]]);
  assert.deepEqual(featureWords(withWord), ["core/a.ts: toyOne"]);
});

/** The files of modes, relay, workers and features that know the addresses of a service port otherwise than by `frontendsOf`. */
function addressReaders(tree: Tree): string[] {
  return [...tree].filter(([path]) => /^(backends|relay|workers|features)\//.test(path))
    .filter(([, text]) => /\b(externalIPs|loadBalancerIPs)\b/.test(text)).map(([path]) => path);
}

Deno.test("modes, relay, workers and features iterate over the frontends of a service port", () => {
  assert.deepEqual(addressReaders(product), []);
  const reading = new Map([["core/a.ts", "port.externalIPs"], ["relay/a.ts", "const { loadBalancerIPs } = port;"]]);
  assert.deepEqual(addressReaders(reading), ["relay/a.ts"]);
});

/** The files that a mod.ts lists and that do not exist. */
function missingFiles(tree: Tree): string[] {
  return [...tree].filter(([path]) => path.endsWith("/mod.ts")).flatMap(([path, text]) => {
    const files = [...text.matchAll(/^ \* {3}(\w+\.ts) /gm)].map(([, name]) => path.replace(/mod\.ts$/, name!));
    return files.filter((file) => !tree.has(file));
  });
}

Deno.test("the files that a mod.ts lists exist", () => {
  assert.deepEqual(missingFiles(product), []);
  const stale = new Map([["a/mod.ts", "/**\n *   b.ts  the rest\n *   c.ts  moved away\n */"], ["a/b.ts", ""]]);
  assert.deepEqual(missingFiles(stale), ["a/c.ts"]);
});

Deno.test("the files that ARCHITECTURE.md names exist", () => {
  const named = Deno.readTextFileSync(new URL("ARCHITECTURE.md", ROOT)).matchAll(/`((?:\w+\/)+\w+\.ts)`/g);
  const tree = readTree(ALL);
  assert.deepEqual([...named].flatMap(([, file]) => tree.has(file!) ? [] : [file]), []);
});

Deno.test("packages come through the import map", () => {
  const { imports } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT)));
  assert.deepEqual(unmappedPackages(readTree(ALL), Object.keys(imports)), []);
});

/** CommonJS packages of which the bundle would only have the default export. */
function lateCommonJs(tree: Tree): string[] {
  return [...tree].filter(([, text]) => /\bimport\("(yaml|commander|ipaddr\.js)"\)/.test(text)).map(([path]) => path);
}

Deno.test("a running proxy loads modules that take much memory only when it needs them", () => {
  assert.deepEqual(LOADED_BY_A_PROXY.filter((path) => !product.has(path)), []);
  assert.deepEqual(heavyImports(product, LOADED_BY_A_PROXY), []);
  // Workers need the calls of features, not their descriptions.
  assert.deepEqual(heavyImports(product, ["workers/family.ts"], ["features/registry.ts"]), []);
  assert.deepEqual(lateCommonJs(product), []);
});

Deno.test("`sluice serve` loads nothing of a proxy, and a proxy nothing of it", () => {
  assert.deepEqual(["serve/run.ts", "workers/serve.ts"].filter((path) => !product.has(path)), []);
  assert.deepEqual(foreignToServe(product), []);
  assert.deepEqual(foreignToProxy(product), []);
  const mixed = new Map([
    ["main.ts", 'import "./config/a.ts";'],
    ["config/a.ts", ""],
    ["serve/run.ts", 'import "../config/a.ts";\nimport type { B } from "../observe/b.ts";\nimport("../observe/c.ts");'],
    ["observe/c.ts", 'import "./d.ts";'],
    ["cli/commands/run.ts", 'import("../../node/mod.ts");'],
    ["node/mod.ts", 'import("../serve/mod.ts");'],
  ]);
  assert.deepEqual(foreignToServe(mixed), ["observe/c.ts", "observe/d.ts"]);
  assert.deepEqual(foreignToProxy(mixed), ["serve/mod.ts"]);
});

Deno.test("only one module starts programs, only one reads the clock, and only one prints", () => {
  assert.deepEqual(outOfPlace(product), []);
  assert.deepEqual(secretStarters(product), []);
});

Deno.test("no module has a default export, files are named in snake_case, and no doc comment begins with What", () => {
  const all = readTree(ALL);
  assert.deepEqual(vagueComments(all), []);
  assert.deepEqual(defaultExports(all), []);
  assert.deepEqual(oddNames(all), []);
});

Deno.test("each test file is loaded by one entry of its room", () => {
  const tests = [...readTree(["tests/unit", "tests/property"]).keys()].filter((path) => path.endsWith("_test.ts"));
  assert.deepEqual(notLoadedOnce(readTree(["tests/rooms"]), tests), []);
});

Deno.test("each rule detects its violations", () => {
  const tree = (files: Record<string, string>): Tree => new Map(Object.entries(files));
  assert.deepEqual(
    forbiddenImports(tree({
      "core/planning/a.ts":
        'import {\n  x,\n} from "../../backends/mod.ts";\nimport { y } from "../../platform/mod.ts";',
      "core/objects/b.ts": 'export type { z } from "../tracking/mod.ts";\nimport { d } from "./d.ts";',
      "backends/ipvs/c.ts":
        'import type { m } from "../../core/model/mod.ts";\nawait import("../../core/channel/mod.ts");',
      "platform/d.ts": 'import "../core/model/mod.ts";',
      "workers/e.ts": 'import { t } from "../tests/fakes/clock.ts";',
      "features/toy/feature.ts":
        'import "../contract.ts";\nimport "../other/calls.ts";\nimport "../../backends/tools/mod.ts";',
      "features/toy/worker.ts": 'import "../../backends/tools/mod.ts";\nimport "./calls.ts";',
      "node/f.ts": 'import { planService } from "../core/planning/service_port.ts";',
      "attic/g.ts": "",
    })),
    [
      "core/planning/a.ts imports backends/mod.ts",
      "core/objects/b.ts imports core/tracking/mod.ts",
      "backends/ipvs/c.ts imports core/channel/mod.ts",
      "platform/d.ts imports core/model/mod.ts",
      "workers/e.ts imports tests/fakes/clock.ts",
      "features/toy/feature.ts imports features/other/calls.ts",
      "features/toy/feature.ts imports backends/tools/mod.ts",
      "node/f.ts imports core/planning/service_port.ts",
      "attic/g.ts is in no room",
    ],
  );
  const comments = tree({
    "a.ts": "/** What it does. */\n/** The thing. */",
    "b.ts": "  /**\n   * What it does.\n   */",
  });
  assert.deepEqual(vagueComments(comments), ["a.ts: What it does. */", "b.ts: What it does."]);
  const packages = tree({ "core/a.ts": 'import y from "yaml";\nimport z from "npm:zod";\nimport "node:os";' });
  assert.deepEqual(unmappedPackages(packages, ["yaml"]), ["core/a.ts imports npm:zod"]);
  assert.deepEqual(
    heavyImports(
      tree({
        "main.ts": 'import {\n  a,\n} from "./core/a.ts";\nconst { help } = await import("./core/config/help.ts");',
        "core/a.ts": 'import type { User } from "commander";\nexport { b } from "./b.ts";',
        "core/b.ts": 'import { parse, type Node } from "yaml";\nimport "node:path";\nawait import("node:http2");',
        "core/c.ts": 'import { readFileSync } from "node:fs";',
        "workers/calls.ts": 'import "../features/toy/calls.ts";',
        "features/toy/calls.ts": 'const late = () => import("./worker.ts");\nimport "./worker/mod.ts";',
        "workers/d.ts":
          'import "./calls.ts";\nimport { page } from "../answers/page/mod.ts";\nimport { b } from "../core/b.ts";',
      }),
      ["main.ts", "workers/d.ts"],
    ),
    [
      "core/b.ts imports node:path",
      "core/b.ts imports yaml",
      "features/toy/calls.ts imports features/toy/worker/mod.ts",
      "workers/d.ts imports answers/page/mod.ts",
    ],
  );
  assert.deepEqual(
    notLoadedOnce(
      tree({ "a_test.ts": 'await loadTests("unit/a", "unit/b_test.ts");', "c.ts": "export const c = 1;" }),
      [
        "tests/unit/a/a_test.ts",
        "tests/unit/ab/c_test.ts",
        "tests/unit/b_test.ts",
      ],
    ),
    ["tests/unit/ab/c_test.ts"],
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
    'export const c: Command = {\n  name: "c",\n  start() { await import("../backends/tools/mod.ts"); createProcessRunner(); }';
  assert.deepEqual(
    secretStarters(tree({
      "cli/commands/a.ts": command,
      "cli/commands/b.ts": `${command}, startsPrograms: true };`,
      "cli/commands/c.ts": `${command}, startsPrograms: true };\n${command} };`,
    })),
    ["cli/commands/a.ts", "cli/commands/c.ts"],
  );
  assert.deepEqual(
    rings(tree({
      "core/a.ts": 'import { b } from "./b.ts";',
      "core/b.ts": 'const { c } = await import("./c.ts");',
      "core/c.ts": 'import type { B } from "./b.ts";',
    })),
    ["core/b.ts → core/c.ts → core/b.ts"],
  );
  assert.deepEqual(defaultExports(tree({ "a.ts": "export default 1;", "b.ts": "export const c = 1;" })), ["a.ts"]);
  assert.deepEqual(oddNames(tree({ "core/fooBar.ts": "", "core/foo-bar.ts": "", "core/foo_bar.ts": "" })), [
    "core/fooBar.ts",
    "core/foo-bar.ts",
  ]);
});
