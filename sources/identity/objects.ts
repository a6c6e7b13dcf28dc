import type { RawObject } from "../../core/objects/mod.ts";
import { loadYaml } from "../../platform/mod.ts";

/** An object of the identity. */
export interface IdentityObject extends RawObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly annotations?: RawObject };
}

/** Name of the service account, its cluster role and the binding. */
export const NAME = "sluice";

/**
 * Returns the objects of deploy/rbac.yaml, with the service account in a namespace; with `nodeCondition`, including the rule
 * that is commented out there.
 */
export async function identityObjects(
  rbac: string,
  namespace: string,
  nodeCondition = false,
): Promise<readonly IdentityObject[]> {
  const { parseAllDocuments } = await loadYaml();
  const text = nodeCondition ? withNodeCondition(rbac) : rbac;
  const objects = parseAllDocuments(text).map((document) => document.toJS() as IdentityObject);
  return objects.map((object) => ({
    ...object,
    metadata: object.metadata.namespace === undefined ? object.metadata : { ...object.metadata, namespace },
    ...(Array.isArray(object.subjects)
      ? { subjects: object.subjects.map((subject: RawObject) => ({ ...subject, namespace })) }
      : {}),
  }));
}

/** Returns the objects of deploy/sites.yaml for the service account in a namespace: they let it use the Leases of another one. */
export async function siteObjects(
  sites: string,
  namespace: string,
  leaseNamespace: string,
): Promise<readonly IdentityObject[]> {
  const objects = await identityObjects(sites, namespace);
  return objects.map((object) => ({ ...object, metadata: { ...object.metadata, namespace: leaseNamespace } }));
}

/** Removes the comment signs of the rule for the node condition. */
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
