/** Deployments of the suite, whose pods go on serving while they end. */
import { waitFor } from "../chaos/wait.ts";
import type { Cluster } from "./cluster.ts";
import { NAMESPACE, netexec, POD_PORT } from "./pods.ts";

const ROLLED_OUT_WITHIN_MS = 900_000;
/** A pod serves for this long after its deletion has begun, as graceful servers do. */
const GRACE_S = 5;

/** A Deployment of the suite. */
export interface DeploymentOptions {
  readonly replicas: number;
  readonly labels: Readonly<Record<string, string>>;
  /** Further fields of its pods' `spec`. */
  readonly pods?: Readonly<Record<string, unknown>>;
}

/** The manifest of a Deployment whose pods answer with their names. */
export function deploymentObject(name: string, { replicas, labels, pods }: DeploymentOptions): unknown {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: "25%" } },
      template: {
        metadata: { labels },
        spec: {
          ...pods,
          terminationGracePeriodSeconds: GRACE_S + 5,
          containers: [{ ...netexec(POD_PORT), lifecycle: { preStop: { sleep: { seconds: GRACE_S } } } }],
        },
      },
    },
  };
}

/** The path of a Deployment of the suite at the API server. */
export function deploymentPath(name: string): string {
  return `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${name}`;
}

/** Resolves once all pods of a Deployment are of its current version, and available. */
export async function rolledOut({ plane }: Cluster, name: string): Promise<void> {
  await waitFor(`the deployment ${name} is rolled out`, ROLLED_OUT_WITHIN_MS, async () => {
    const { metadata, spec, status } = (await plane.request("GET", deploymentPath(name))).body;
    const counts = [status.replicas, status.updatedReplicas, status.availableReplicas];
    return status.observedGeneration === metadata.generation && counts.every((count) => count === spec.replicas);
  }, 500);
}
