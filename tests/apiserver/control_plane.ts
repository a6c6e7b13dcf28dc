/** A control plane of real programs, beside the lab: etcd, kube-apiserver and, if it is there, kube-controller-manager. */
import { dirname } from "node:path";
import { parse } from "yaml";
import { NETWORK } from "../../demo/lab.ts";
import { API_LINK } from "../chaos/lab.ts";
import { waitFor } from "../chaos/wait.ts";
import { createCertificateAuthority } from "../fakes/certificates.ts";
import type { ApiObject } from "../fakes/api_validation.ts";

/** The API server's answer. */
export interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any -- objects of many kinds
  readonly body: any;
}

/** A running control plane. */
export interface ControlPlane {
  /** Path of the administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** Path of a kubeconfig with the credentials that the kubelet of the lab's node has. */
  readonly kubeletConfig: string;
  /** Whether kube-controller-manager runs, which fills Secrets with tokens. */
  readonly hasControllers: boolean;
  /** Sends a request as the administrator, or with another token. A PATCH is a strategic merge patch. */
  request(method: string, path: string, object?: unknown, token?: string): Promise<Answer>;
  /** Creates an object, or changes nothing with `dryRun`; unknown fields are refused. */
  create(object: ApiObject, options?: { readonly dryRun: boolean }): Promise<Answer>;
  /** Kills kube-apiserver. */
  killServer(): Promise<void>;
  /** Starts kube-apiserver and waits until it is ready. */
  startServer(): Promise<void>;
  /** Kills everything. */
  close(): Promise<void>;
}

const READY_WITHIN_MS = 120_000;
const URL_OF_SERVER = `https://${API_LINK.server}:6443`;
/** A name for which the server has a certificate, without an address; DNS does not know it. */
export const SERVER_NAME = "kube.example";
const ETCD = "http://127.0.0.1:2379";

/** Starts a control plane with its data in a folder. Its service network has the addresses of deploy/example. */
export async function startControlPlane(folder: string): Promise<ControlPlane> {
  const server = Deno.env.get("KUBE_APISERVER")!;
  const authority = await createCertificateAuthority("test");
  const serving = await authority.issue("kube-apiserver", 3, API_LINK.server);
  const named = await authority.issue("kube-apiserver by name", 3, SERVER_NAME);
  const signing = await authority.issue("service accounts");
  const token = crypto.randomUUID(), kubeletToken = crypto.randomUUID();
  const files = {
    "ca.pem": authority.cert,
    "server.pem": serving.cert,
    "server.key": serving.key,
    "named.pem": named.cert,
    "named.key": named.key,
    "accounts.pem": signing.cert,
    "accounts.key": signing.key,
    "tokens.csv": `${token},admin,1,system:masters\n${kubeletToken},system:node:${NETWORK.nodeName},2,system:nodes\n`,
    "kubeconfig": kubeconfigOf(authority.cert, token),
    "kubelet.kubeconfig": kubeconfigOf(authority.cert, kubeletToken),
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

  const client = Deno.createHttpClient({ caCerts: [authority.cert] });
  const request: ControlPlane["request"] = async (method, path, object, withToken = token) => {
    const patch = method === "PATCH" ? "application/strategic-merge-patch+json" : "application/json";
    const response = await fetch(`${URL_OF_SERVER}${path}`, {
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
    kubeletConfig: `${folder}/kubelet.kubeconfig`,
    hasControllers: programBeside(server, "kube-controller-manager") !== undefined,
    request,
    async create(object, { dryRun } = { dryRun: false }) {
      const query = `fieldValidation=Strict${dryRun ? "&dryRun=All" : ""}`;
      return await request("POST", `${await collectionOf(object, request)}?${query}`, object);
    },
    async killServer() {
      await kill(child!);
    },
    async startServer() {
      child = start(server, serverArguments());
      await waitFor("the API server is ready", READY_WITHIN_MS, async () => {
        const answer = await request("GET", "/readyz").catch(() => undefined);
        return answer?.body === "ok";
      }, 100);
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
      "--controllers=serviceaccount-token-controller",
    ]);
  }
  return plane;
}

function serverArguments(): readonly string[] {
  return [
    ...["--etcd-servers", ETCD, "--bind-address", API_LINK.server, "--advertise-address", API_LINK.server],
    ...["--tls-cert-file", "server.pem", "--tls-private-key-file", "server.key", "--token-auth-file", "tokens.csv"],
    ...["--service-account-key-file", "accounts.pem", "--service-account-signing-key-file", "accounts.key"],
    ...["--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "Node,RBAC"],
    ...["--service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112", "--endpoint-reconciler-type", "none"],
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

function kubeconfigOf(authority: string, token: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "test", cluster: { server: URL_OF_SERVER, "certificate-authority-data": btoa(authority) } }],
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
