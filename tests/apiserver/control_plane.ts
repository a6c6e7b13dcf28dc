/** A control plane of real programs: etcd, kube-apiserver and, if it is there, kube-controller-manager. */
import { dirname } from "node:path";
import { parse } from "yaml";
import { waitFor } from "../chaos/wait.ts";
import { createCertificateAuthority } from "../fakes/certificates.ts";
import type { ApiObject } from "../fakes/api_validation.ts";

/** The API server's answer. */
export interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any -- objects of many kinds
  readonly body: any;
}

/** A user of the API server. */
export interface User {
  readonly name: string;
  readonly group: string;
}

/** Where a control plane runs, for whom, and how. */
export interface ControlPlaneOptions {
  /** Path of kube-apiserver. The other programs are beside it, or on the PATH. */
  readonly server: string;
  /** The API server's IPv4 address. */
  readonly address: string;
  /** Users beside the administrator; each gets a kubeconfig of this name. */
  readonly users: Readonly<Record<string, User>>;
  /** Further flags of kube-apiserver, which runs in the folder. */
  readonly serverFlags?: readonly string[];
  /** Further flags of kube-controller-manager, which runs in the folder. */
  readonly controllerFlags: readonly string[];
}

/** A running control plane. */
export interface ControlPlane {
  /** Path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** Path of the kubeconfig of one of the users. */
  kubeconfigOf(user: string): string;
  /** Whether kube-controller-manager runs, which fills Secrets with tokens. */
  readonly hasControllers: boolean;
  /** Sends a request as the administrator, or with another token. A PATCH is a strategic merge patch. */
  request(method: string, path: string, object?: unknown, token?: string): Promise<Answer>;
  /** Creates an object, or changes nothing with `dryRun`; unknown fields are refused. */
  create(object: ApiObject, options?: { readonly dryRun: boolean }): Promise<Answer>;
  /** Starts a further program beside kube-apiserver, in its folder; `close` ends it. */
  start(program: string, args: readonly string[]): void;
  /** Kills kube-apiserver. */
  killServer(): Promise<void>;
  /** Starts kube-apiserver and waits until it is ready. */
  startServer(): Promise<void>;
  /** Gives kube-apiserver another serving certificate, which it uses from its next start on. */
  renewCertificate(): Promise<void>;
  /** Certificates (PEM) of the authority that signs kube-apiserver's, and of its successor. All kubeconfigs here trust both. */
  authorities(): readonly [current: string, next: string];
  /** Gives kube-apiserver a certificate of the next authority, which it uses from its next start on; the two change places. */
  rotateAuthority(): Promise<void>;
  /** Kills everything. */
  close(): Promise<void>;
}

const READY_WITHIN_MS = 120_000;
/** A name for which the server has a certificate, without an address; DNS does not know it. */
export const SERVER_NAME = "kube.example";
const ETCD = "http://127.0.0.1:2379";

/** The network of cluster IPs, which contains those of deploy/example. */
export const SERVICE_NETWORK = "10.96.0.0/16,fd00:10:96::/112";

/** Starts a control plane with its data in a folder. */
export async function startControlPlane(folder: string, options: ControlPlaneOptions): Promise<ControlPlane> {
  const { server, address, users, serverFlags = [], controllerFlags } = options;
  const url = `https://${address}:6443`;
  // Of the same name, as kubeadm's; programs read their kubeconfigs once, so that both exist from the start.
  let authority = await createCertificateAuthority("test"), next = await createCertificateAuthority("test");
  const trusted = authority.cert + next.cert;
  const serving = await authority.issue("kube-apiserver", 3, address);
  const named = await authority.issue("kube-apiserver by name", 3, SERVER_NAME);
  const toKubelet = await authority.issueToClient("kube-apiserver", "system:masters");
  const signing = await authority.issue("service accounts");
  const admin: [string, User] = ["kubeconfig", { name: "admin", group: "system:masters" }];
  const others = Object.entries(users).map(([key, user]): [string, User] => [`${key}.kubeconfig`, user]);
  const accounts = [admin, ...others].map(([file, user]) => ({ ...user, file, token: crypto.randomUUID() }));
  const { token } = accounts[0]!;
  const files = {
    "ca.pem": trusted,
    "server.pem": serving.cert,
    "server.key": serving.key,
    "named.pem": named.cert,
    "named.key": named.key,
    "kubelet-client.pem": toKubelet.cert,
    "kubelet-client.key": toKubelet.key,
    "accounts.pem": signing.cert,
    "accounts.key": signing.key,
    "tokens.csv": accounts.map(({ name, group, token }) => `${token},${name},${name},${group}\n`).join(""),
    ...Object.fromEntries(accounts.map(({ file, token }) => [file, kubeconfigWith(url, trusted, token)])),
  };
  for (const [name, text] of Object.entries(files)) Deno.writeTextFileSync(`${folder}/${name}`, text);

  const running: Deno.ChildProcess[] = [];
  const start = (program: string, args: readonly string[]) => {
    const log = `${folder}/${program.replace(/^.*\//, "")}.log`;
    const child = new Deno.Command("sh", {
      args: ["-c", 'exec "$@" > "$0" 2>&1', log, program, ...args],
      cwd: folder,
      stdin: "null",
    }).spawn();
    running.push(child);
    return child;
  };
  const kill = async (child: Deno.ChildProcess) => {
    running.splice(running.indexOf(child), 1);
    child.kill("SIGKILL");
    await child.status;
  };

  const client = Deno.createHttpClient({ caCerts: [trusted] });
  const request: ControlPlane["request"] = async (method, path, object, withToken = token) => {
    const patch = method === "PATCH" ? "application/strategic-merge-patch+json" : "application/json";
    const response = await fetch(`${url}${path}`, {
      method,
      client,
      headers: { authorization: `Bearer ${withToken}`, "content-type": patch },
      body: object === undefined ? undefined : JSON.stringify(object),
    });
    const text = await response.text();
    return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
  };

  const etcdArgs = ["--data-dir", `${folder}/etcd`, "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD];
  start(programBeside(server, "etcd") ?? "etcd", etcdArgs);
  let child: Deno.ChildProcess | undefined;
  const plane: ControlPlane = {
    kubeconfig: `${folder}/kubeconfig`,
    kubeconfigOf: (user) => `${folder}/${user}.kubeconfig`,
    hasControllers: programBeside(server, "kube-controller-manager") !== undefined,
    request,
    async create(object, { dryRun } = { dryRun: false }) {
      const query = `fieldValidation=Strict${dryRun ? "&dryRun=All" : ""}`;
      return await request("POST", `${await collectionOf(object, request)}?${query}`, object);
    },
    start(program, args) {
      start(programBeside(server, program)!, args);
    },
    async killServer() {
      await kill(child!);
    },
    async startServer() {
      child = start(server, [...serverArguments(address), ...serverFlags]);
      await waitFor("the API server is ready", READY_WITHIN_MS, async () => {
        const answer = await request("GET", "/readyz").catch(() => undefined);
        return answer?.body === "ok";
      }, 100);
    },
    async renewCertificate() {
      const { cert, key } = await authority.issue("kube-apiserver", 3, address);
      Deno.writeTextFileSync(`${folder}/server.pem`, cert);
      Deno.writeTextFileSync(`${folder}/server.key`, key);
    },
    authorities: () => [authority.cert, next.cert],
    async rotateAuthority() {
      [authority, next] = [next, authority];
      await plane.renewCertificate();
    },
    async close() {
      client.close();
      for (const one of [...running].reverse()) await kill(one);
    },
  };
  await plane.startServer();
  if (plane.hasControllers) {
    start(programBeside(server, "kube-controller-manager")!, [
      ...["--kubeconfig", "kubeconfig", "--service-account-private-key-file", "accounts.key", "--leader-elect=false"],
      ...controllerFlags,
    ]);
  }
  return plane;
}

function serverArguments(address: string): readonly string[] {
  return [
    ...["--etcd-servers", ETCD, "--bind-address", address, "--advertise-address", address],
    ...["--tls-cert-file", "server.pem", "--tls-private-key-file", "server.key", "--token-auth-file", "tokens.csv"],
    ...["--service-account-key-file", "accounts.pem", "--service-account-signing-key-file", "accounts.key"],
    ...["--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "Node,RBAC"],
    ...["--service-cluster-ip-range", SERVICE_NETWORK, "--endpoint-reconciler-type", "none"],
    ...["--tls-sni-cert-key", "named.pem,named.key"],
    ...["--allow-privileged", "--enable-admission-plugins", "NodeRestriction"],
  ];
}

/** Path of a program in the same folder as another one; undefined if it is not there. */
function programBeside(path: string, name: string): string | undefined {
  const beside = `${dirname(path)}/${name}`;
  try {
    Deno.statSync(beside);
    return beside;
  } catch {
    return undefined;
  }
}

function kubeconfigWith(server: string, authority: string, token: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "test", cluster: { server, "certificate-authority-data": btoa(authority) } }],
    users: [{ name: "test", user: { token } }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
  });
}

/** The path of the collection that an object belongs to, as the server's discovery names it. */
async function collectionOf(object: ApiObject, request: ControlPlane["request"]): Promise<string> {
  const { apiVersion, kind, metadata } = object as ApiObject & { readonly metadata?: { readonly namespace?: string } };
  const base = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const { body } = await request("GET", base);
  const resources = (body.resources ?? []) as readonly { name: string; kind: string; namespaced: boolean }[];
  const resource = resources.find((one) => one.kind === kind && !one.name.includes("/"));
  if (resource === undefined) throw new Error(`the API server has no ${apiVersion} ${kind}`);
  const namespace = resource.namespaced ? `/namespaces/${metadata?.namespace ?? "default"}` : "";
  return `${base}${namespace}/${resource.name}`;
}

/** The token in a kubeconfig that Sluice wrote. */
export function tokenIn(kubeconfig: string): string {
  const { users } = parse(Deno.readTextFileSync(kubeconfig)) as { users: readonly [{ user: { token: string } }] };
  return users[0].user.token;
}
