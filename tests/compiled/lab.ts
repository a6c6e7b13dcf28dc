/**
 * The network of the held processes, made inside `isolate`: an API server under TLS at 10.20.0.254, and namespaces of nodes on the same
 * bridge.
 */
import { SET_DEFAULTS } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { serviceText, sliceText } from "../bench/api_text.ts";
import { endChild } from "../children.ts";
import { type ApiObject, startFakeApiServer } from "../fakes/api_server.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../fakes/certificates.ts";

const API = "10.20.0.254";
const SERVICES = 100;
/** The environment of a node's unit. */
export const UNIT_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  /^Environment=(.*)$/m.exec(Deno.readTextFileSync(new URL("../../deploy/sluice.service", import.meta.url)))![1]!
    .split(" ").map((variable) => variable.split("=")),
);
/** As kube-apiserver. */
const BOOKMARK_MS = 60_000;
const LAST_LINES = 15;

/** Paths of a certificate and its key. */
export interface CertificateFiles {
  readonly crt: string;
  readonly key: string;
}

/** The lab. */
export interface CompiledLab {
  readonly folder: string;
  readonly authority: CertificateAuthority;
  /** The path of the authority's certificate. */
  readonly ca: string;
  /** The number of services; each has one slice. */
  readonly services: number;
  /** Issues a certificate for an address. */
  certificate(name: string, address: string): Promise<CertificateFiles>;
  /** Creates the objects of a site with these members. */
  installSite(site: string, members: readonly string[]): void;
  /** Adds the namespace of a node, with an address on the bridge, and its Node object. */
  addNode(name: string, address: string): Promise<void>;
  /** Starts the executable with a kubeconfig, in the namespace of a node or, without one, in the API server's. */
  start(name: string, args: readonly string[], node?: string): Started;
  /** Replaces an endpoint in each of the next `count` slices. */
  change(count: number): void;
  /** The paths that a process has watched at the API server so far, one for each watch. */
  watches(name: string): readonly string[];
  /** The last lines of every process. */
  logs(): readonly string[];
  close(): Promise<void>;
}

/** A running executable. */
export interface Started {
  readonly pid: number;
  log(): string;
}

/** Creates the lab. */
export async function createCompiledLab(): Promise<CompiledLab> {
  const program = Deno.env.get("SLUICE_BINARY") ?? new URL("../../dist/sluice", import.meta.url).pathname;
  const path = await Deno.realPath(program);
  const folder = await Deno.makeTempDir({ dir: "/run" });
  await runTool([
    "ip link add bridge0 type bridge",
    `ip address add ${API}/24 dev bridge0`,
    "ip link set bridge0 up",
  ]);
  const authority = await createCertificateAuthority("lab");
  const write = (name: string, text: string) => {
    Deno.writeTextFileSync(`${folder}/${name}`, text, { mode: 0o600 });
    return `${folder}/${name}`;
  };
  /** Its token is the name, by which the API server knows the process. */
  const kubeconfig = (name: string) =>
    write(
      `${name}.kubeconfig`,
      JSON.stringify({
        apiVersion: "v1",
        kind: "Config",
        clusters: [{
          name: "lab",
          cluster: { server: `https://${API}:6443`, "certificate-authority-data": btoa(authority.cert) },
        }],
        users: [{ name, user: { token: name } }],
        contexts: [{ name: "lab", context: { cluster: "lab", user: name } }],
        "current-context": "lab",
      }),
    );
  const certificate = async (name: string, address: string) => {
    const { cert, key } = await authority.issue(name, 3, address);
    return { crt: write(`${name}.crt`, cert), key: write(`${name}.key`, key) };
  };
  const api = startFakeApiServer({ hostname: API, port: 6443, tls: await authority.issue("api", 3, API) });
  const slice = (index: number, round: number) =>
    ({ ...JSON.parse(sliceText(index, round)), kind: "EndpointSlice" }) as ApiObject;
  for (let index = 0; index < SERVICES; index++) api.apply(JSON.parse(serviceText(index)), slice(index, 0));
  let cancelBookmark = () => {};
  const bookmark = () => {
    api.bookmark();
    cancelBookmark = systemClock.schedule(BOOKMARK_MS, bookmark);
  };
  bookmark();

  const children: Deno.ChildProcess[] = [];
  const logs: (() => string)[] = [];
  const nodes: string[] = [];
  let changed = 0;
  return {
    folder,
    authority,
    ca: write("ca.pem", authority.cert),
    services: SERVICES,
    certificate,
    installSite: api.leases.install,
    async addNode(name, address) {
      nodes.push(name);
      await runTool([
        `ip netns add ${name}`,
        `ip -n ${name} link set lo up`,
        `ip netns exec ${name} ${SET_DEFAULTS}`,
        `ip link add ${name} type veth peer name eth0 netns ${name}`,
        `ip link set ${name} master bridge0 up`,
        `ip -n ${name} address add ${address}/24 dev eth0`,
        `ip -n ${name} link set eth0 up`,
        `ip -n ${name} route add default via ${API}`,
      ]);
      api.apply({
        kind: "Node",
        metadata: { name, labels: { "kubernetes.io/hostname": name } },
        status: { addresses: [{ type: "InternalIP", address }] },
      });
    },
    start(name, args, node) {
      const command = [path, ...args, "--kubeconfig", kubeconfig(name)];
      const [tool, ...rest] = node === undefined ? command : ["ip", "netns", "exec", node, ...command];
      const env = { ...(node === undefined ? {} : UNIT_ENVIRONMENT), DENO_USR2_MEMORY_TRIM: "1" };
      const child = new Deno.Command(tool!, { args: rest, env, stdin: "null", stdout: "null", stderr: "piped" })
        .spawn();
      let log = "";
      void (async () => {
        for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
      })();
      children.push(child);
      logs.push(() => `${name}:\n${log.trim().split("\n").slice(-LAST_LINES).join("\n")}`);
      return { pid: child.pid, log: () => log };
    },
    change(count) {
      for (let left = count; left > 0; left--, changed++) api.apply(slice(changed % SERVICES, 1 + changed));
    },
    watches: (name) =>
      api.requests.filter(({ verb, headers }) => verb === "watch" && headers.get("authorization") === `Bearer ${name}`)
        .map(({ path }) => path),
    logs: () => logs.map((log) => log()),
    async close() {
      cancelBookmark();
      await Promise.all(children.map(endChild));
      await api.close();
      await runTool([...nodes.map((name) => `ip netns delete ${name}`), "ip link delete bridge0"]);
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Runs commands of a shell. Throws an Error with the output of the first that fails. */
async function runTool(lines: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("sh", { args: ["-ec", lines.join("\n")], stdin: "null" }).output();
  if (!success) throw new Error(`the lab failed: ${new TextDecoder().decode(stderr).trim()}`);
}
