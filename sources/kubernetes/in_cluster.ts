import { joinHostPort } from "../../platform/mod.ts";
import type { Access } from "./access.ts";

/** The folder where kubelet mounts a pod's service account. */
const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * The API server and credentials of a pod, from environment variables and the mounted service account. Throws an Error that
 * lists everything that is missing.
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
      "no API server configured: neither a kubeconfig (--kubeconfig, or clientConnection.kubeconfig in the " +
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
    serverName: undefined,
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
