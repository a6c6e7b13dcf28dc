/**
 * Checks the API server before a proxy uses it: permissions, version, clock, the node's name.
 *
 * In: the configuration. Out: findings. May touch: the API server.
 */
import { type Finding, problemFinding, problemKind } from "../../core/problems/mod.ts";
import { type ClockAndLogger, errorText, type RunProgram } from "../../platform/mod.ts";
import type { Permission } from "../../features/mod.ts";
import { ApiError, type ApiErrorKind, type Kind } from "../../core/objects/mod.ts";
import {
  type ApiClient,
  connectToApi,
  KubeconfigError,
  listNodeNames,
  otherNodesText,
  readNode,
  readObject,
  resourcesOf,
  sendObject,
} from "../kubernetes/mod.ts";

interface Review extends Permission {
  readonly allowed: boolean;
}

interface ApiPreflightOptions extends ClockAndLogger {
  readonly kubeconfig: string | undefined;
  readonly master: string | undefined;
  readonly runProgram?: RunProgram;
  readonly kinds: readonly Kind[];
  /** This node's name; undefined for a server of other nodes, which needs no Node and records no Events. */
  readonly nodeName: string | undefined;
  /** The permissions that its features need; none by default. */
  readonly permissions?: readonly Permission[];
  readonly signal: AbortSignal;
}

/** Checks the API server's version and clock, the permissions of this identity, and this node's Node. */
export async function examineApi(options: ApiPreflightOptions): Promise<readonly Finding[]> {
  let api: ApiClient;
  // Findings say how each request ended, so only the warnings about the kubeconfig are logged.
  const logger = { ...options.logger, info() {} };
  try {
    api = await connectToApi({ ...options, logger, responseDeadlineMs: 10_000 });
  } catch (error) {
    const { mistake, fix } = error instanceof KubeconfigError
      ? error
      : { mistake: errorText(error), fix: FIX_CREDENTIALS };
    return [problemFinding(API_SERVER, "api-unusable", mistake, fix)];
  }
  try {
    const { kinds, nodeName, permissions: ofFeatures = [] } = options;
    const permissions = nodeName === undefined ? permissionsToRead(kinds) : [...permissionsOf(kinds), ...ofFeatures];
    const { version, skewMs } = await getVersion(api, options);
    return [
      { name: API_SERVER, verdict: "green", message: `${api.server} runs Kubernetes ${version}` },
      ...(skewMs === undefined ? [] : [judgeSkew(skewMs)]),
      ...judgeReviews(await Promise.all(permissions.map((one) => review(api, one, options.signal)))),
      ...nodeName === undefined ? [] : [await examineNodeObject(api, { ...options, nodeName })],
    ];
  } catch (error) {
    options.signal.throwIfAborted();
    const kind = error instanceof ApiError ? error.kind : undefined;
    return [problemFinding(API_SERVER, "api-unusable", errorText(error), kind && FIXES[kind])];
  } finally {
    api.close();
  }
}

const API_SERVER = "API server";
const FIX_CREDENTIALS =
  "name the configuration of the service with --config, or a kubeconfig with --kubeconfig; `sluice kubeconfig` makes one";

/** The permissions of a proxy that reads objects of these kinds and has no features. */
export function permissionsOf(kinds: readonly Kind[]): readonly Permission[] {
  const without = "problems are only logged, not recorded as Events of the Node";
  return [...permissionsToRead(kinds), ...["create", "patch"].map((verb) => ({ verb, resource: "events", without }))];
}

function permissionsToRead(kinds: readonly Kind[]): readonly Permission[] {
  return resourcesOf(kinds, undefined).flatMap(({ name: resource, without }) =>
    ["list", "watch"].map((verb) => ({ verb, resource, without }))
  );
}

async function getVersion(api: ApiClient, { clock, signal }: ApiPreflightOptions) {
  const headers = { date: "" };
  const onHeaders = (answer: Headers) => {
    headers.date = answer.get("date") ?? "";
  };
  const answer = await readObject(api, { resource: "version", path: "/version", onHeaders }, signal);
  const { gitVersion = "(unknown version)" } = answer as { gitVersion?: string };
  const serverMs = Date.parse(headers.date);
  return { version: gitVersion, skewMs: Number.isNaN(serverMs) ? undefined : serverMs - clock.now() };
}

/** Checks a permission by a SelfSubjectAccessReview, which every authenticated user may create (ClusterRole system:basic-user). */
async function review(api: ApiClient, permission: Permission, signal: AbortSignal): Promise<Review> {
  const { verb, namespace, name } = permission, [path = "", ...group] = permission.resource.split(".");
  const [resource, subresource] = path.split("/");
  const answer = await sendObject(api, {
    verb: "create",
    resource: "selfsubjectaccessreviews.authorization.k8s.io",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    object: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { verb, group: group.join("."), resource, subresource, namespace, name } },
    },
  }, signal) as { readonly status?: { readonly allowed?: unknown } };
  return { ...permission, allowed: answer.status?.allowed === true };
}

async function examineNodeObject(
  api: ApiClient,
  { nodeName, signal }: { readonly nodeName: string; readonly signal: AbortSignal },
): Promise<Finding> {
  const name = "node";
  try {
    await readNode(api, nodeName, signal);
    return { name, verdict: "green", message: `Node ${nodeName} exists` };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof ApiError) || error.kind !== "not-found") {
      return problemFinding(name, "optional-api-permission-missing", errorText(error));
    }
    const others = await listNodeNames(api, signal).then((names) => otherNodesText(nodeName, names), errorText);
    signal.throwIfAborted();
    const message = `Node ${nodeName} does not exist, so /healthz answers 503, and zone and addresses are unknown: ` +
      others;
    return problemFinding(name, "node-missing", message);
  }
}

const WARN_FROM_MS = 5_000, ALARM_FROM_MS = 300_000;

/** Checks the difference between the API server's clock and this one, on which certificates and tokens depend. */
export function judgeSkew(skewMs: number): Finding {
  const name = "clock";
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  // The Date header has whole seconds.
  if (Math.abs(skewMs) < WARN_FROM_MS) return { name, verdict: "green", message: "in sync with the API server" };
  const direction = skewMs > 0 ? "behind" : "ahead of";
  const message = `is ${seconds} s ${direction} the API server's: certificates and tokens depend on it`;
  return problemFinding(name, Math.abs(skewMs) < ALARM_FROM_MS ? "clock-skewed" : "clock-wrong", message);
}

/** One finding if everything is allowed, else one for all missing permissions with the same effect. */
function judgeReviews(reviews: readonly Review[]): readonly Finding[] {
  const name = "RBAC";
  const denied = reviews.filter(({ allowed }) => !allowed);
  if (denied.length === 0) {
    return [{ name, verdict: "green", message: `grants all ${reviews.length} permissions that the proxy needs` }];
  }
  return [...Map.groupBy(denied, ({ without }) => without)].map(([without, reviews]) => {
    const verbs = Map.groupBy(reviews, ({ resource }) => resource);
    const missing = [...verbs].map(([resource, of]) => `${of.map(({ verb }) => verb).join(" and ")} ${resource}`);
    return problemFinding(
      name,
      without === undefined ? "api-permission-missing" : "optional-api-permission-missing",
      `no permission to ${missing.join(", ")}${without === undefined ? "" : `: ${without}`}`,
      reviews[0]!.fix,
    );
  });
}

const FIXES: Readonly<Partial<Record<ApiErrorKind, string>>> = {
  credentials: FIX_CREDENTIALS,
  "certificate-expired": problemKind("api-certificate-expired").fix,
  certificate: "set the CA in the kubeconfig to the one that signed the API server's certificate",
  dns: "use an IP address, or a resolver outside the cluster",
  unreachable: "set the server in the kubeconfig to an address that works without a service proxy",
  timeout: "set the server in the kubeconfig to an address that works without a service proxy",
  unauthorized: "put a new token or certificate into the kubeconfig",
  forbidden: problemKind("api-permission-missing").fix,
};
