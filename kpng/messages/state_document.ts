import type { DescribedOperation } from "./describe.ts";

/** A service of a node's state and its endpoints, as JSON: the values are KPNG's messages of package localv1. */
export interface DocumentedService {
  /** `namespace/name`. */
  readonly path: string;
  readonly service: object;
  /** By path. */
  readonly endpoints: readonly { readonly path: string; readonly endpoint: object }[];
}

/** The whole state of a node after a round. */
export interface StateDocument {
  readonly node: string;
  /** Sorted by path. */
  readonly services: readonly DocumentedService[];
}

/** Accumulates the operations of a local stream. */
export interface DocumentedState {
  /** Takes an operation; returns the document if it ends a round. */
  take(operation: DescribedOperation): StateDocument | undefined;
}

/** Creates the empty state of a node. */
export function createDocumentedState(node: string): DocumentedState {
  const services = new Map<string, object>();
  const endpoints = new Map<string, Map<string, object>>();

  const put = ({ set, path = "", value }: DescribedOperation) => {
    if (set === "services") {
      if (value === undefined) services.delete(path);
      else services.set(path, value);
    } else if (set === "endpoints") {
      const owner = path.split("/", 2).join("/");
      const of = endpoints.get(owner) ?? new Map<string, object>();
      if (value === undefined) of.delete(path);
      else of.set(path, value);
      if (of.size > 0) endpoints.set(owner, of);
      else endpoints.delete(owner);
    }
  };

  return {
    take(operation) {
      switch (operation.op) {
        case "reset":
          services.clear();
          endpoints.clear();
          return undefined;
        case "set":
        case "delete":
          put(operation);
          return undefined;
        case "sync":
          return {
            node,
            services: sorted(services).map(([path, service]) => ({
              path,
              service,
              endpoints: sorted(endpoints.get(path) ?? new Map<string, object>()).map(([path, endpoint]) => ({
                path,
                endpoint,
              })),
            })),
          };
      }
    },
  };
}

function sorted(entries: ReadonlyMap<string, object>): readonly (readonly [string, object])[] {
  return [...entries].sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
}
