import { joinHostPort } from "../../platform/mod.ts";
import type { Access } from "./access.ts";

/** Where kubelet mounts a pod's service account. */
const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * The API server and credentials that a pod is given: environment variables and the mounted service account. Throws
 * an Error that names each thing that is missing.
 */
export function readInCluster(
  env: (name: string) => string | undefined,
  folder: string = SERVICE_ACCOUNT_FOLDER,
): Access {
  const host = env("KUBERNETES_SERVICE_HOST");
  const port = env("KUBERNETES_SERVICE_PORT");
  const token = `${folder}/token`;
  const ca = `${folder}/ca.crt`;
  const missing = [
    ...(host ? [] : ["the environment variable KUBERNETES_SERVICE_HOST"]),
    ...(port ? [] : ["the environment variable KUBERNETES_SERVICE_PORT"]),
    ...[token, ca].filter((file) => !isReadable(file)).map((file) => `the file ${file}`),
  ];
  if (!host || !port || missing.length > 0) {
    throw new Error(
      "there is no way to the API server: neither a kubeconfig (--kubeconfig, or clientConnection.kubeconfig in the " +
        `configuration file) nor --master is given, and for a pod's service account ${missing.join(" and ")} ` +
        `${missing.length === 1 ? "is" : "are"} missing`,
    );
  }
  return {
    server: `https://${joinHostPort(host, Number(port))}`,
    ca: { file: ca },
    token: { file: token },
    certificate: undefined,
    key: undefined,
    proxyUrl: undefined,
    headers: [],
    plugin: undefined,
    warnings: [],
  };
}

function isReadable(file: string): boolean {
  try {
    return Deno.readTextFileSync(file).trim() !== "";
  } catch {
    return false;
  }
}
