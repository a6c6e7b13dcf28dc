import type { RawObject } from "../../core/objects/mod.ts";
import { loadYaml } from "../../platform/mod.ts";

/** An object of the identity. */
export interface IdentityObject extends RawObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly annotations?: RawObject };
}

/** Name of the service account, its cluster role and the binding. */
export const NAME = "sluice";

/** Returns the objects of deploy/rbac.yaml, with the service account in a namespace. */
export async function identityObjects(rbac: string, namespace: string): Promise<readonly IdentityObject[]> {
  const { parseAllDocuments } = await loadYaml();
  const objects = parseAllDocuments(rbac).map((document) => document.toJS() as IdentityObject);
  return objects.map((object) => ({
    ...object,
    metadata: object.metadata.namespace === undefined ? object.metadata : { ...object.metadata, namespace },
    ...(Array.isArray(object.subjects)
      ? { subjects: object.subjects.map((subject: RawObject) => ({ ...subject, namespace })) }
      : {}),
  }));
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
