/** Hostile files: a state file, and manifests. */
import { hostileService } from "./objects.ts";
import type { HostileScenario, Target } from "./scenario.ts";
import { replace, type Spoil, UNREADABLE } from "./spoil.ts";

const MiB = 2 ** 20;

function fileTarget(source: string, path: string, text: (count: number) => string, spoil: Spoil): Target {
  Deno.writeTextFileSync(path, text(1));
  return {
    flags: ["--source", source],
    attack: () => spoil(path),
    relent: () => replace(path, text(2)),
    close: () => {},
  };
}

const item = (name: string, ip = "10.96.0.1", port = "80") =>
  `- service:\n    namespace: default\n    name: ${name}\n    ips: {clusterips: {v4: [${ip}]}}\n` +
  `    ports:\n    - {name: http, protocol: 1, port: ${port}}\n`;

const stateOf = (...items: readonly string[]) => `services:\n${items.join("")}`;
const stateText = (count: number) =>
  stateOf(...Array.from({ length: count }, (_, i) => item(`web-${i}`, `10.96.0.${i + 1}`)));

/** State files in which something is wrong: they are refused as a whole. */
const STATES: Readonly<Record<string, string>> = {
  "an item of 17 MiB": `nodes:\n- name: ${"a".repeat(17 * MiB)}\n`,
  "half of it": stateText(1).slice(0, -20),
  "two documents": `${stateText(1)}---\n${stateText(1)}`,
  "an unknown list": `${stateText(1)}serviecs: []\n`,
  "a list of numbers": stateOf("- 1\n- 2\n"),
  "a text for a list": "services: none\n",
  "100,000 items, the last one broken": stateOf(
    ...Array.from({ length: 100_000 }, (_, i) => item(`web-${i}`, `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)),
    "- nothing\n",
  ),
};

/** Items that are not served, or in part, and leave the others alone. */
const ITEMS: Readonly<Record<string, string>> = {
  "an address beyond the range": item("second", "10.96.0.256"),
  "an address of nft's syntax": item("second", '"10.96.0.1; flush ruleset"'),
  "a name of shell syntax": item('"$(reboot)`;\\n\\0"', "10.96.0.9"),
  "the name __proto__": item("__proto__", "10.96.0.9"),
  "a port of 65536": item("second", "10.96.0.9", "65536"),
  "a negative port": item("second", "10.96.0.9", "-1"),
  "a port of text": item("second", "10.96.0.9", '"eighty"'),
  "a port of 400 digits": item("second", "10.96.0.9", "9".repeat(400)),
};

const manifest = (change: Readonly<Record<string, unknown>> = {}) =>
  JSON.stringify({ ...hostileService(1), ...change });
const manifestText = (count: number) =>
  Array.from({ length: count }, (_, i) => JSON.stringify(hostileService(i + 1))).join("\n---\n");

/** Manifests that are refused as a whole. */
const FILES: Readonly<Record<string, string>> = {
  "half of it": manifestText(1).slice(0, -20),
  "a list as the root": `[${manifest()}]`,
  "no kind": manifest({ kind: undefined }),
  "a kind that is a list": manifest({ kind: ["Service"] }),
  "100,000 documents, the last one broken": `${"{kind: Pod}\n---\n".repeat(100_000)}{`,
};

/** A Service beside the one in effect. */
const second = (spec: Readonly<Record<string, unknown>>, metadata: Readonly<Record<string, unknown>> = {}) => {
  const { spec: honest } = hostileService(9) as unknown as { readonly spec: object };
  return JSON.stringify({
    ...hostileService(9),
    metadata: { namespace: "default", name: "second", ...metadata },
    spec: { ...honest, ...spec },
  });
};

/** Objects that are not served, or in part, and leave the others alone. */
const OBJECTS: Readonly<Record<string, string>> = {
  "an unknown apiVersion": manifest({ apiVersion: "v2", metadata: { namespace: "default", name: "second" } }),
  "an address beyond the range": second({ clusterIP: "10.96.0.256", clusterIPs: ["10.96.0.256"] }),
  "an address of nft's syntax": second({ clusterIP: "1; flush ruleset", clusterIPs: ["1; flush ruleset"] }),
  "a name of shell syntax": second({}, { name: "$(reboot)`;\n\0" }),
  "a namespace of a path": second({}, { namespace: "../../etc" }),
  "a port of 65536": second({ ports: [{ port: 65_536 }] }),
  "a negative port": second({ ports: [{ port: -1 }] }),
  "a port of text": second({ ports: [{ port: "80" }] }),
  "ports that are no list": second({ ports: { length: 10 ** 9 } }),
  "100,000 broken ports": second({ ports: Array.from({ length: 100_000 }, () => ({ port: 0 })) }),
  "metadata that is a text": manifest({ metadata: "second" }),
  "items that are no objects": '{"apiVersion":"v1","kind":"List","items":[null,1,"a",[[]]]}',
};

/** The ways of a state file and of manifests. */
export const fileScenarios: readonly HostileScenario[] = [
  ...Object.entries({ ...UNREADABLE, ...spoilsOf(STATES) }).map(([name, spoil]) => ({
    name: `state file: ${name}`,
    says: /file-unreadable/,
    attackMs: 2_000,
    start: (folder: string) => fileTarget(`state:${folder}/state.yaml`, `${folder}/state.yaml`, stateText, spoil),
  })),
  ...Object.entries(ITEMS).map(([name, item]) => ({
    name: `state file: ${name}`,
    says: /object-invalid|file-unreadable/,
    mayAdd: true,
    attackMs: 2_000,
    start: (folder: string) =>
      fileTarget(
        `state:${folder}/state.yaml`,
        `${folder}/state.yaml`,
        stateText,
        (path) => replace(path, stateText(1) + item),
      ),
  })),
  ...Object.entries({ ...UNREADABLE, ...spoilsOf(FILES) }).map(([name, spoil]) => ({
    name: `manifests: ${name}`,
    says: /file-unreadable/,
    attackMs: 2_000,
    start: (folder: string) => manifests(folder, spoil),
  })),
  ...Object.entries(OBJECTS).map(([name, object]) => ({
    name: `manifests: ${name}`,
    says: /object-invalid/,
    mayAdd: true,
    attackMs: 2_000,
    start: (folder: string) => manifests(folder, (path) => replace(path, `${manifestText(1)}\n---\n${object}`)),
  })),
];

function manifests(folder: string, spoil: Spoil): Target {
  return fileTarget(`file:${folder}`, `${folder}/services.yaml`, manifestText, spoil);
}

function spoilsOf(texts: Readonly<Record<string, string>>): Readonly<Record<string, Spoil>> {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, (path: string) => replace(path, text)]));
}
