import { duration, flagValue, option, text } from "../../config/mod.ts";
import type { IdentityObject, Token } from "../../sources/identity/mod.ts";
import type { ApiClient } from "../../sources/kubernetes/mod.ts";
import { fileErrorText, isLoopback, shippedText, writeToStderr } from "../../platform/mod.ts";
import { type Command, type Invocation, UsageError } from "./command.ts";
import { DRY_RUN_FLAG } from "./install.ts";

const OUTPUT = option("output", text("sluice.kubeconfig"), "File to write, or - for standard output.", "o");
const NAMESPACE = option("namespace", text("kube-system"), "Namespace of the service account.");
const MEMBERS = option(
  "site-members",
  text(),
  "With --site: the names of the nodes that may lead and follow, separated by commas; those of an earlier call by default.",
);
const DURATION = option(
  "token-duration",
  duration(),
  "Lifetime of the token, at least 10m; by default it lasts until its Secret is deleted.",
);
/** The shortest lifetime that the API server accepts, in milliseconds. */
const SHORTEST_MS = 600_000;
/** RFC 1123 label, as the API server requires of a namespace. */
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** RFC 1123 subdomain, as the API server requires of a Node's name. */
const NODE_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** `sluice kubeconfig`: the nodes' kubeconfig from an administrator's. */
export const kubeconfigCommand: Command = {
  name: "kubeconfig",
  summary: "Create a service account with Sluice's permissions, and write a kubeconfig for the nodes.",
  flags: [OUTPUT, NAMESPACE, MEMBERS, DURATION, DRY_RUN_FLAG],
  withoutSource: true,
  examples: {
    "sluice kubeconfig --kubeconfig admin.conf --dry-run": "what would be created, checked by the API server",
    "sluice kubeconfig --kubeconfig admin.conf --output kubeconfig": "a file for /etc/sluice/kubeconfig on every node",
    "sluice kubeconfig --kubeconfig admin.conf --site store-12 --site-members node-a,node-b,node-c":
      "with the permissions and the members of a site",
    "sluice kubeconfig --kubeconfig /etc/rancher/k3s/k3s.yaml --master https://192.0.2.1:6443":
      "with the address at which the nodes reach the API server",
  },
  async start(invocation) {
    const { configuration: { kubeconfig }, flags } = invocation;
    const namespace = flagValue(flags, NAMESPACE) ?? "kube-system";
    const durationMs = flagValue(flags, DURATION);
    if (kubeconfig === undefined) {
      throw new UsageError("kubeconfig needs an administrator's kubeconfig: --kubeconfig /etc/kubernetes/admin.conf");
    }
    if (!LABEL.test(namespace)) {
      throw new UsageError(`--namespace is ${JSON.stringify(namespace)}: not a namespace's name`);
    }
    if (durationMs !== undefined && durationMs < SHORTEST_MS) {
      throw new UsageError("--token-duration is too short: the API server accepts 10m or longer");
    }
    await createIdentity(invocation, kubeconfig, namespace, durationMs);
    return 0;
  },
};

async function createIdentity(
  invocation: Invocation,
  kubeconfig: string,
  namespace: string,
  durationMs: number | undefined,
): Promise<void> {
  const { configuration: { master, nodeCondition, site }, flags, signal, clock } = invocation;
  const { connectToApi, readApiServer } = await import("../../sources/kubernetes/mod.ts");
  const identity = await import("../../sources/identity/mod.ts");
  const path = flagValue(flags, OUTPUT) ?? "sluice.kubeconfig";
  await refuseForeignFile(path);
  const server = await readApiServer(kubeconfig, master);
  const ofNodes = [
    ...await identity.identityObjects(shippedText("rbac.yaml"), namespace, nodeCondition),
    ...(durationMs === undefined ? [identity.tokenSecret(namespace)] : []),
  ];
  // Steps go to standard error if the kubeconfig goes to standard output.
  const say = path === "-" ? writeToStderr : invocation.print;
  const api = await connectToApi({ ...invocation, kubeconfig, master });
  try {
    const objects = [...ofNodes, ...site.name === "" ? [] : await objectsOfSite(invocation, api, namespace)];
    const checked = await identity.applyObjects(api, objects, { dryRun: true, signal });
    if (flagValue(flags, DRY_RUN_FLAG) === true) {
      for (const { object, verb } of checked) {
        say(`would ${verb === "create" ? "create" : "update"}  ${identity.objectName(object)}\n`);
      }
      say(`would write   ${path}, for ${server.server}\n`);
      return;
    }
    for (const { object, verb } of await identity.applyObjects(api, objects, { dryRun: false, signal })) {
      say(`${verb === "create" ? "created" : "updated"}  ${identity.objectName(object)}\n`);
    }
    const token = durationMs === undefined
      ? await identity.readSecretToken(api, namespace, { clock, signal })
      : await identity.requestToken(api, namespace, Math.round(durationMs / 1000), signal);
    const content = await identity.kubeconfigText(server, token.token);
    if (path === "-") invocation.print(content);
    else await writePrivately(path, content);
    const written = path === "-" ? "the kubeconfig" : `${path} (mode 600)`;
    say(`wrote    ${written}, for ${server.server}; ${lifetime(token, namespace)}\n`);
  } finally {
    api.close();
  }
  if (isLocal(server.server)) {
    writeToStderr(
      `sluice: warning: ${server.server} is this machine only; for other nodes, name an address that they reach with ` +
        "--master https://HOST:PORT\n",
    );
  }
  say(
    "\nNext: copy it to each node as /etc/sluice/kubeconfig, mode 600, then on the node:\n" +
      "  sluice install --kubeconfig /etc/sluice/kubeconfig --cluster-cidr POD-CIDR --now\n",
  );
}

/** Returns the objects of a site. Throws an Error if neither this call nor an earlier one has named its members. */
async function objectsOfSite(
  { configuration: { site }, flags, signal }: Invocation,
  api: ApiClient,
  namespace: string,
): Promise<readonly IdentityObject[]> {
  const { siteObjects } = await import("../../sources/identity/mod.ts");
  const { readMembers, readSiteMembers } = await import("../../features/site/lease.ts");
  const { readObject } = await import("../../sources/kubernetes/mod.ts");
  const read = (resource: string, path: string, signal: AbortSignal) => readObject(api, { resource, path }, signal);
  const given = flagValue(flags, MEMBERS);
  const members = given === undefined
    ? await readSiteMembers({ read }, site.leaseNamespace, site.name, signal)
    : readMembers(given);
  if (members.length === 0) {
    throw new Error(`site ${site.name} has no members: name its nodes with --site-members NODE,NODE`);
  }
  const wrong = members.find((name) => !NODE_NAME.test(name));
  if (wrong !== undefined) throw new Error(`--site-members: ${JSON.stringify(wrong)} is not the name of a Node`);
  const identity = { name: site.name, leaseNamespace: site.leaseNamespace, members };
  return await siteObjects(shippedText("sites.yaml"), namespace, identity);
}

function lifetime({ expires }: Token, namespace: string): string {
  return expires === undefined
    ? `its token lasts until Secret ${namespace}/sluice-token is deleted`
    : `its token expires at ${expires}; repeat this command before`;
}

function isLocal(server: string): boolean {
  const { hostname } = new URL(server);
  return hostname === "localhost" || isLoopback(hostname.replace(/^\[|\]$/g, ""));
}

/** Throws if a file exists that this command did not write, such as the administrator's kubeconfig. */
async function refuseForeignFile(path: string): Promise<void> {
  if (path === "-") return;
  let found: string;
  try {
    found = await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw new Error(`cannot replace ${path}: ${fileErrorText(error)}`);
  }
  if (!/^current-context: sluice$/m.test(found)) {
    throw new Error(`${path} exists and is not a kubeconfig of this command (remove it, or choose another --output)`);
  }
}

async function writePrivately(path: string, content: string): Promise<void> {
  const temporary = `${path}.new`;
  try {
    await Deno.remove(temporary).catch(() => {});
    await Deno.writeTextFile(temporary, content, { mode: 0o600, createNew: true });
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw new Error(`cannot write ${path}: ${fileErrorText(error)}`);
  }
}
