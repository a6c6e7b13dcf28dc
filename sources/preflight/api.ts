import type { ProxyMode } from "../../core/model/mod.ts";
import { type Clock, errorText, type Finding, type Logger, type RunProgram } from "../../platform/mod.ts";
import { kindsOf } from "../../core/objects/mod.ts";
import {
  type ApiClient,
  ApiError,
  type ApiErrorKind,
  connectToApi,
  listNodeNames,
  otherNodesText,
  resourcesOf,
  sendObject,
} from "../kubernetes/mod.ts";

/** A right that the proxy uses, as RBAC has it. */
export interface Right {
  readonly verb: string;
  /** `services`, `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  /** What is lost without it; undefined for what nothing works without. */
  readonly without?: string;
}

/** What the API server answered about a right. */
export interface Review extends Right {
  readonly allowed: boolean;
}

/** Where the API server is, and who asks. */
export interface ApiPreflightOptions {
  readonly kubeconfig: string | undefined;
  readonly master: string | undefined;
  /** Runs the credential plugin that the kubeconfig names. */
  readonly runProgram?: RunProgram;
  readonly mode: ProxyMode;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Asks the API server whether it answers, what time it is, what this identity may do, and for this node's Node. */
export async function examineApi(options: ApiPreflightOptions): Promise<readonly Finding[]> {
  let api: ApiClient;
  try {
    api = await connectToApi({ ...options, responseDeadlineMs: 10_000 });
  } catch (error) {
    return [{ name: API_SERVER, verdict: "red", message: errorText(error), fix: FIX_CREDENTIALS }];
  }
  try {
    const { version, skewMs } = await askVersion(api, options);
    return [
      { name: API_SERVER, verdict: "green", message: `${api.server} answers: Kubernetes ${version}` },
      ...(skewMs === undefined ? [] : [judgeSkew(skewMs)]),
      ...judgeReviews(await Promise.all(rightsOf(options.mode).map((right) => review(api, right, options.signal)))),
      await examineNodeObject(api, options),
    ];
  } catch (error) {
    options.signal.throwIfAborted();
    return [judgeApiFailure(error)];
  } finally {
    api.close();
  }
}

const API_SERVER = "API server";
const FIX_CREDENTIALS =
  "--config with the configuration of the service (/etc/sluice/config.yaml), or a kubeconfig for this node by --kubeconfig";
const READ_DEADLINE_MS = 10_000;

/** The rights that a proxy of this mode uses. */
export function rightsOf(mode: ProxyMode): readonly Right[] {
  const watched = resourcesOf(kindsOf(mode), undefined).flatMap(({ name: resource, without }) =>
    ["list", "watch"].map((verb) => ({ verb, resource, without }))
  );
  const withoutEvents = "what an administrator should know is in the log alone, not among the Node's events";
  const written = ["create", "patch"].map((verb) => ({ verb, resource: "events", without: withoutEvents }));
  return [...watched, ...written];
}

async function askVersion(api: ApiClient, { clock, signal }: ApiPreflightOptions) {
  const headers = { date: "" };
  const text = await get(api, { resource: "version", path: "/version" }, signal, (answer) => {
    headers.date = answer.get("date") ?? "";
  });
  const { gitVersion = "of an unknown version" } = JSON.parse(text) as { gitVersion?: string };
  const serverMs = Date.parse(headers.date);
  return { version: gitVersion, skewMs: Number.isNaN(serverMs) ? undefined : serverMs - clock.now() };
}

async function get(
  api: ApiClient,
  { resource, path }: { readonly resource: string; readonly path: string },
  signal: AbortSignal,
  onHeaders?: (headers: Headers) => void,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  await api.send({ verb: "get", resource, path, onHeaders, readDeadlineMs: READ_DEADLINE_MS }, (chunk) => {
    text += decoder.decode(chunk, { stream: true });
  }, signal);
  return text;
}

/** By a SelfSubjectAccessReview, which every authenticated user may make (the ClusterRole system:basic-user). */
async function review(api: ApiClient, right: Right, signal: AbortSignal): Promise<Review> {
  const [resource, ...group] = right.resource.split(".");
  const answer = await sendObject(api, {
    verb: "create",
    resource: "selfsubjectaccessreviews.authorization.k8s.io",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    object: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: { verb: right.verb, group: group.join("."), resource } },
    },
  }, signal) as { readonly status?: { readonly allowed?: unknown } };
  return { ...right, allowed: answer.status?.allowed === true };
}

async function examineNodeObject(api: ApiClient, { nodeName, signal }: ApiPreflightOptions): Promise<Finding> {
  const name = "node";
  try {
    await get(api, { resource: "nodes", path: `/api/v1/nodes/${encodeURIComponent(nodeName)}` }, signal);
    return { name, verdict: "green", message: `the Node ${nodeName} is there` };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof ApiError) || error.kind !== "not-found") {
      return { name, verdict: "yellow", message: errorText(error), fix: FIX_RIGHTS };
    }
    const others = await listNodeNames(api, signal).then((names) => otherNodesText(nodeName, names), errorText);
    signal.throwIfAborted();
    return {
      name,
      verdict: "red",
      message: `there is no Node ${nodeName}, so /healthz answers 503, and zone and addresses are unknown: ${others}`,
      fix: "set its name by --hostname-override or hostnameOverride",
    };
  }
}

const WARN_FROM_MS = 5_000, ALARM_FROM_MS = 300_000;

/** What the difference between the API server's clock and this one's means, for certificates and tokens above all. */
export function judgeSkew(skewMs: number): Finding {
  const name = "clock";
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  // The header has whole seconds.
  if (Math.abs(skewMs) < WARN_FROM_MS) return { name, verdict: "green", message: "is the API server's" };
  return {
    name,
    verdict: Math.abs(skewMs) < ALARM_FROM_MS ? "yellow" : "red",
    message: `is ${seconds} s ${
      skewMs > 0 ? "behind" : "ahead of"
    } the API server's: certificates and tokens depend on it`,
    fix: "timedatectl set-ntp true, or another time service, on both",
  };
}

const FIX_RIGHTS =
  "bind the ClusterRole system:node-proxier, or that of deploy/rbac.yaml, to the user of the kubeconfig";

/** What the reviews mean: one finding where all is allowed, or one for each right that is missing. */
export function judgeReviews(reviews: readonly Review[]): readonly Finding[] {
  const name = "RBAC";
  const denied = reviews.filter(({ allowed }) => !allowed);
  if (denied.length === 0) {
    return [{ name, verdict: "green", message: `allows all ${reviews.length} things that the proxy asks for` }];
  }
  return denied.map(({ verb, resource, without }) => ({
    name,
    verdict: without === undefined ? "red" : "yellow",
    message: `forbids to ${verb} ${resource}${without === undefined ? "" : `: ${without}`}`,
    fix: FIX_RIGHTS,
  }));
}

const FIXES: Readonly<Partial<Record<ApiErrorKind, string>>> = {
  credentials: FIX_CREDENTIALS,
  certificate: "the certificate authority in the kubeconfig must be the one that signed the API server's certificate",
  dns: "an address in place of the name, or a resolver that works without the cluster's own",
  unreachable: "the server's address in the kubeconfig must be one that works without a service proxy",
  timeout: "the server's address in the kubeconfig must be one that works without a service proxy",
  unauthorized: "a new token or certificate in the kubeconfig",
  forbidden: FIX_RIGHTS,
};

function judgeApiFailure(error: unknown): Finding {
  const kind = error instanceof ApiError ? error.kind : undefined;
  const fix = (kind && FIXES[kind]) ?? "see what the API server and what stands before it say";
  return { name: API_SERVER, verdict: "red", message: withoutSequel(errorText(error)), fix };
}

/** What happened, without what a proxy would do next: a check asks once. */
function withoutSequel(text: string): string {
  return text.replace(/; (the request is repeated|they are read again at the next try)$/, "");
}
