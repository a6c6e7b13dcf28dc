/** The namespace and service in the path of an entry of a local state: `namespace/service`, or longer for an endpoint. */
export function splitLocalPath(path: string): { readonly namespace: string; readonly service: string } {
  const [namespace = "", service = ""] = path.split("/", 2);
  return { namespace, service };
}

/**
 * Whether the path of an endpoint of the global state, `namespace|service|source|hash`, is the second one that KPNG has
 * for it, without the service.
 */
export function isSecondPath(path: string): boolean {
  return path.split("|", 2)[1] === "";
}
