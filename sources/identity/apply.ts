import { errorText } from "../../platform/mod.ts";
import { type ApiClient, ApiError, sendObject } from "../kubernetes/mod.ts";
import type { IdentityObject } from "./objects.ts";

/** An object with the request that brought it about. */
export interface AppliedObject {
  readonly object: IdentityObject;
  readonly verb: "create" | "patch";
}

const RBAC = { resource: ".rbac.authorization.k8s.io", path: "/apis/rbac.authorization.k8s.io/v1" };

/** The resource of each kind as RBAC names it, and the path of its collection. */
const KINDS: Readonly<Record<string, (namespace: string) => { readonly resource: string; readonly path: string }>> = {
  ServiceAccount: (namespace) => ({
    resource: "serviceaccounts",
    path: `/api/v1/namespaces/${namespace}/serviceaccounts`,
  }),
  Secret: (namespace) => ({ resource: "secrets", path: `/api/v1/namespaces/${namespace}/secrets` }),
  Role: (namespace) => ({
    resource: `roles${RBAC.resource}`,
    path: `${RBAC.path}/namespaces/${namespace}/roles`,
  }),
  RoleBinding: (namespace) => ({
    resource: `rolebindings${RBAC.resource}`,
    path: `${RBAC.path}/namespaces/${namespace}/rolebindings`,
  }),
  ClusterRole: () => ({ resource: `clusterroles${RBAC.resource}`, path: `${RBAC.path}/clusterroles` }),
  ClusterRoleBinding: () => ({
    resource: `clusterrolebindings${RBAC.resource}`,
    path: `${RBAC.path}/clusterrolebindings`,
  }),
};

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
      applied.push({ object, verb: await apply(api, object, dryRun, signal) });
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
  const { resource, path } = KINDS[object.kind]!(namespace);
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
