/**
 * Attacks by code that runs in the main isolate. The test inserts a call into a decoder of a copy of the sources, which runs
 * with the first decoded object. The attacks use only what a real attacker could know.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import process from "node:process";

/** Tries to leave a file in the folder, or to make a change that the test detects. */
type Attack = (folder: string) => unknown;

/** The code of a worker that runs a command, which main may not do. */
function workerCode(command: string): string {
  return `data:application/javascript,${
    encodeURIComponent(`
    for (const [tool, args] of [["sh", ["-c", ${JSON.stringify(command)}]], ["choom", ["-n", "0", "--", "sh", "-c", ${
      JSON.stringify(command)
    }]]]) {
      try { await new Deno.Command(tool, { args }).output(); } catch (error) { console.error("attack worker: " + error.message); }
    }
    console.error("attack worker: ran");`)
  }`;
}

/** Intercepts the first message that main posts to a family's worker. */
function onFirstMessage(use: (worker: Worker, post: (message: unknown, transfer?: Transferable[]) => void) => void) {
  const original = Worker.prototype.postMessage;
  let isUsed = false;
  Worker.prototype.postMessage = function (this: Worker, ...given: unknown[]) {
    Reflect.apply(original, this, given);
    if (isUsed) return;
    isUsed = true;
    use(this, (message, transfer = []) => Reflect.apply(original, this, [message, transfer]));
  };
}

/** Sends a forged message to a worker in main's name. */
const send = (message: (folder: string) => unknown): Attack => (folder) =>
  onFirstMessage((_worker, post) => post(message(folder)));

const PORT = {
  name: "default/attack:http",
  protocol: "tcp",
  clusterIP: "10.96.0.66",
  port: 80,
  externalIPs: [],
  loadBalancerIPs: [],
  nodePort: 0,
  healthCheckNodePort: 0,
  internal: "cluster",
  external: "cluster",
  clusterEndpoints: ["10.244.1.11:8080"],
  localEndpoints: [],
  endpointsOnThisNode: [],
  lingeringEndpoints: [],
  affinitySeconds: 0,
  loadBalancerSources: undefined,
};
const SETTINGS = {
  mode: "iptables",
  nodeIP: "192.0.2.10",
  localTraffic: { by: "none" },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  nodePortPrefixes: undefined,
  localhostNodePorts: false,
  conntrackTcpLiberal: false,
  serviceRanges: [],
  syncPeriodMs: 30_000,
};
const START = { type: "start", family: "IPv4", mode: "iptables", logLevel: "info", logFormat: "text", kernel: [] };

/** Sends a full state with one service port and settings, changed as given. */
const sync = (port: object, settings: object = {}) =>
  send(() => ({
    type: "sync",
    delta: {
      revision: 1000,
      base: undefined,
      settings: { ...SETTINGS, ...settings },
      set: [{ ...PORT, ...port }],
      deleted: [],
    },
  }));

const INJECTED = `\nCOMMIT\n*filter\n:INJECTED - [0:0]\nCOMMIT\n*nat\n`;

function loadLibrary(path: string) {
  return Deno.dlopen(path, { system: { parameters: ["buffer"], result: "i32" } });
}

const ATTACKS: Readonly<Record<string, Attack>> = {
  "starts a program": (folder) => new Deno.Command("sh", { args: ["-c", `touch ${folder}/started`] }).outputSync(),
  "starts a tool": (folder) =>
    new Deno.Command("choom", { args: ["-n", "0", "--", "touch", `${folder}/started`] }).outputSync(),
  "starts a program as Node does": (folder) => {
    const { error } = spawnSync("touch", [`${folder}/started`]);
    if (error) throw error;
  },
  "requests the permission": async () => {
    const { state } = await Deno.permissions.request({ name: "run" });
    if (state !== "granted") throw new Error(`the permission is ${state}`);
  },
  "writes a file": (folder) => Deno.writeTextFileSync(`${folder}/written`, ""),
  "sets a variable": () => Deno.env.set("XTABLES_LIBDIR", "/run"),
  "sets a variable as Node does": () => {
    process.env = Object.create(process.env);
    process.env.XTABLES_LIBDIR = "/run";
    Deno.env.get("XTABLES_LIBDIR");
  },
  "loads a library": () => loadLibrary("libc.so.6"),
  "loads the library that a worker may load": (folder) => {
    const folders = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64"].filter((path) => existsSync(path));
    loadLibrary(`${folders[0]}/libc.so.6`).symbols.system(new TextEncoder().encode(`touch ${folder}/worked\0`));
  },
  "starts a worker with all permissions": (folder) => {
    const code = workerCode(`touch ${folder}/worked`);
    new Worker(code, { type: "module", deno: { permissions: { run: true } } });
  },
  "starts a worker with its tools": (folder) => {
    const code = workerCode(`touch ${folder}/worked`);
    new Worker(code, { type: "module", deno: { permissions: { run: ["choom", "nft"] } } });
  },
  "makes a worker start a sibling with code of the attacker": (folder) =>
    onFirstMessage((_worker, post) => {
      const { port2 } = new MessageChannel();
      const code = { entry: workerCode(`touch ${folder}/sibling`), name: "x", tools: ["nft", "choom", "iptables"] };
      post({ type: "start-sibling", number: 77, code, port: port2 }, [port2]);
    }),
  "gives a worker another PATH": send((folder) => ({ type: "role", family: "IPv4", path: folder })),
  "makes a worker set an arbitrary sysctl": send(() => ({
    ...START,
    kernel: [{ name: "kernel.core_pattern", value: 1 }],
  })),
  "makes a worker set a sysctl to an arbitrary value": send(() => ({
    ...START,
    kernel: [{ name: "net.ipv4.ip_forward", value: 0 }],
  })),
  "makes a worker pass an option to sysctl": send(() => ({
    ...START,
    kernel: [{ name: "--load=/run/settings", value: 1 }],
  })),
  "makes a worker load an arbitrary kernel module": send(() => ({
    ...START,
    mode: "ipvs",
    ipvs: { scheduler: "rr -C /run/modprobe", strictARP: false, excludePrefixes: [], timeoutSeconds: {} },
  })),
  "injects rules with a name": sync({ name: `default/x"${INJECTED}` }),
  "injects rules with a cluster IP": sync({ clusterIP: `10.96.0.66/32${INJECTED}` }),
  "injects rules with an endpoint": sync({ clusterEndpoints: [`10.244.1.11:8080${INJECTED}`] }),
  "injects rules with a source range": sync({
    loadBalancerSources: { ranges: [`10.0.0.0/8${INJECTED}`], includeNode: false },
    loadBalancerIPs: ["198.51.100.66"],
  }),
  "injects rules with a number": sync({ port: `80${INJECTED}` }),
  "injects rules with an interface": sync({}, { localTraffic: { by: "bridge", interface: `eth0${INJECTED}` } }),
  "injects rules with a node port prefix": sync({}, { nodePortPrefixes: [`10.0.0.0/8${INJECTED}`] }),
  "includes a file": sync({}, { localTraffic: { by: "interface-prefix", prefix: `x"\ninclude "/etc/shadow"\n` } }),
};

/** The names of all attacks. */
export const ATTACK_NAMES: readonly string[] = Object.keys(ATTACKS);

let hasStarted = false;

/** Runs the attack named in the file `attack` of this folder and prints the result on standard error. */
export async function attack(folder: string): Promise<void> {
  if (hasStarted) return;
  hasStarted = true;
  const name = Deno.readTextFileSync(`${folder}/attack`);
  try {
    await ATTACKS[name]!(folder);
    console.error(`attack: ${name}: done`);
  } catch (error) {
    console.error(`attack: ${name}: refused: ${(error as Error).message}`);
  }
}
