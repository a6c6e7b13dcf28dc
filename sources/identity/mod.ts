/**
 * Creates the identity of the proxies at an API server: service account, cluster role and token, as a kubeconfig.
 *
 * In: an administrator's API client. Out: a kubeconfig. May touch: the network.
 */
import { ApiError, type RawObject } from "../../core/objects/mod.ts";
import { type Clock, errorText, loadYaml, sleep } from "../../platform/mod.ts";
import { type ApiClient, type ApiServer, readObject, sendObject } from "../kubernetes/mod.ts";

/** An object of the identity. */
export interface IdentityObject extends RawObject {
  /** `v1`, `rbac.authorization.k8s.io/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly annotations?: RawObject };
}

/** Name of the service account, its cluster role and the binding. */
const NAME = "sluice";

/** The objects of deploy/rbac.yaml for a namespace; with `nodeCondition`, including the rule commented out there. */
export async function identityObjects(
  rbac: string,
  namespace: string,
  nodeCondition = false,
): Promise<readonly IdentityObject[]> {
  const { parseTree, plainData } = await loadYaml();
  const text = nodeCondition ? withNodeCondition(rbac) : rbac;
  const { documents } = parseTree(text, { uniqueKeys: true });
  const objects = documents.map((document) => plainData(document) as IdentityObject);
  return objects.map((object) => ({
    ...object,
    metadata: object.metadata.namespace === undefined ? object.metadata : { ...object.metadata, namespace },
    ...(Array.isArray(object.subjects)
      ? { subjects: object.subjects.map((subject: RawObject) => ({ ...subject, namespace })) }
      : {}),
  }));
}

interface SiteIdentity {
  readonly name: string;
  readonly leaseNamespace: string;
  readonly members: readonly string[];
}

/** The name of the site in deploy/sites.yaml. */
const EXAMPLE_SITE = "store-12";

/** Returns the objects of deploy/sites.yaml for a site and the service account in a namespace. */
export async function siteObjects(
  sites: string,
  namespace: string,
  { name, leaseNamespace, members }: SiteIdentity,
): Promise<readonly IdentityObject[]> {
  const objects = await identityObjects(sites.replaceAll(EXAMPLE_SITE, name), namespace);
  return objects.map((object) => {
    if (object.kind === "Namespace") return { ...object, metadata: { ...object.metadata, name: leaseNamespace } };
    const ofSite = { ...object, metadata: { ...object.metadata, namespace: leaseNamespace } };
    return object.kind === "ConfigMap" ? { ...ofSite, data: { members: members.join("\n") } } : ofSite;
  });
}

function withNodeCondition(rbac: string): string {
  const rule = /^ {2}# - apiGroups.*\n(?: {2}# {3}\w+: .*\n)+/m;
  if (!rule.test(rbac)) throw new Error("deploy/rbac.yaml has no rule for the node condition");
  return rbac.replace(rule, (lines) => lines.replace(/^ {2}# /gm, "  "));
}

/** Returns the Secret that the API server fills with a token that does not expire, as long as it exists. */
export function tokenSecret(namespace: string): IdentityObject {
  return {
    apiVersion: "v1",
    kind: "Secret",
    type: "kubernetes.io/service-account-token",
    metadata: { name: `${NAME}-token`, namespace, annotations: { "kubernetes.io/service-account.name": NAME } },
  };
}

/** An object and the request that created or updated it. */
interface AppliedObject {
  readonly object: IdentityObject;
  readonly verb: "create" | "patch";
}

/** The resource of an object as RBAC names it, and the path of its collection. */
function collectionOf({ apiVersion, kind, metadata: { namespace } }: IdentityObject) {
  const plural = `${kind.toLowerCase()}s`;
  const [group] = apiVersion.includes("/") ? apiVersion.split("/") : [];
  const root = group === undefined ? `/api/${apiVersion}` : `/apis/${apiVersion}`;
  return {
    resource: group === undefined ? plural : `${plural}.${group}`,
    path: namespace === undefined ? `${root}/${plural}` : `${root}/namespaces/${namespace}/${plural}`,
  };
}

/**
 * Creates or updates the objects. With `dryRun`, the API server checks every request and changes nothing.
 * @throws an error that lists every request that failed
 */
export async function applyObjects(
  api: ApiClient,
  objects: readonly IdentityObject[],
  { dryRun, signal }: { readonly dryRun: boolean; readonly signal: AbortSignal },
): Promise<readonly AppliedObject[]> {
  const applied: AppliedObject[] = [];
  const failures: string[] = [];
  for (const object of objects) {
    try {
      const isInNewNamespace = applied.some(({ object: { kind, metadata }, verb }) =>
        kind === "Namespace" && verb === "create" && metadata.name === object.metadata.namespace
      );
      // A dry run does not create the namespace, without which nothing in it can be checked.
      const verb = dryRun && isInNewNamespace ? "create" : await apply(api, object, dryRun, signal);
      applied.push({ object, verb });
    } catch (error) {
      signal.throwIfAborted();
      // Later objects would fail for the same reason.
      if (!(error instanceof ApiError) || error.kind !== "forbidden" && error.kind !== "rejected") throw error;
      failures.push(`${objectName(object)}: ${errorText(error)}`);
    }
  }
  if (failures.length > 0) throw new Error(failures.join("\n"));
  return applied;
}

async function apply(
  api: ApiClient,
  object: IdentityObject,
  dryRun: boolean,
  signal: AbortSignal,
): Promise<"create" | "patch"> {
  const { name, namespace = "" } = object.metadata;
  const { resource, path } = collectionOf(object);
  const query = dryRun ? "?dryRun=All" : "";
  try {
    await sendObject(api, { verb: "patch", resource, path: `${path}/${name}${query}`, object }, signal);
    return "patch";
  } catch (error) {
    if (!(error instanceof ApiError) || error.kind !== "not-found") throw error;
  }
  try {
    await sendObject(api, { verb: "create", resource, path: `${path}${query}`, object }, signal);
    return "create";
  } catch (error) {
    if (!(error instanceof ApiError) || error.kind !== "not-found" || namespace === "") throw error;
    throw new Error(`there is no namespace ${namespace} (create it, or choose another one with --namespace)`, {
      cause: error,
    });
  }
}

/** An object as text: `ServiceAccount kube-system/sluice`. */
export function objectName({ kind, metadata: { namespace, name } }: IdentityObject): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

/** A token of the service account. */
export interface Token {
  readonly token: string;
  /** The time of its expiry as the API server writes it; undefined for a token that lasts as long as its Secret. */
  readonly expires: string | undefined;
}

const FILLED_WITHIN_MS = 10_000;
const POLL_MS = 200;

/** Waits until the API server has filled the Secret with a token. */
export async function readSecretToken(
  api: ApiClient,
  namespace: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Token> {
  const { name } = tokenSecret(namespace).metadata;
  const endMs = clock.monotonic() + FILLED_WITHIN_MS;
  for (;;) {
    const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
    const secret = await readObject(api, { resource: "secrets", path }, signal) as {
      readonly data?: { readonly token?: string };
    };
    if (secret.data?.token) return { token: atob(secret.data.token), expires: undefined };
    if (clock.monotonic() >= endMs) {
      const cause = "the controller manager does not issue tokens (see its log, or use --token-duration)";
      throw new Error(`Secret ${namespace}/${name} has no token after ${FILLED_WITHIN_MS / 1000} s: ${cause}`);
    }
    await sleep(clock, POLL_MS, signal);
  }
}

/** Requests a token that expires (TokenRequest API); the API server may shorten the duration, in seconds. */
export async function requestToken(
  api: ApiClient,
  namespace: string,
  expirationSeconds: number,
  signal: AbortSignal,
): Promise<Token> {
  const answer = await sendObject(api, {
    verb: "create",
    resource: "serviceaccounts/token",
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${NAME}/token`,
    object: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { expirationSeconds } },
  }, signal) as { readonly status?: { readonly token?: string; readonly expirationTimestamp?: string } };
  const { token, expirationTimestamp } = answer.status ?? {};
  if (!token) throw new Error(`${api.server} answered the TokenRequest without a token`);
  return { token, expires: expirationTimestamp };
}

/** Returns a kubeconfig for an API server and a token. */
export async function kubeconfigText({ server, ca, serverName }: ApiServer, token: string): Promise<string> {
  const { formatYaml } = await loadYaml();
  const certificates = ca === undefined
    ? {}
    : { "certificate-authority-data": new TextEncoder().encode(ca).toBase64() };
  const named = serverName === undefined ? {} : { "tls-server-name": serverName };
  return formatYaml({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: NAME, cluster: { server, ...named, ...certificates } }],
    users: [{ name: NAME, user: { token } }],
    contexts: [{ name: NAME, context: { cluster: NAME, user: NAME } }],
    "current-context": NAME,
  });
}
