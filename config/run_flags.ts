import { DEFAULT_MESSAGE_BYTES } from "../kpng/address/mod.ts";
import { boolean, duration, integer, text, type ValueOf } from "../platform/schema/mod.ts";
import { type Flag, type GivenFlags, option } from "./command_spec.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "./kube_proxy_configuration.ts";

/** The default control socket, which only root can access (see `run`). */
const DEFAULT_CONTROL_SOCKET = "/run/sluice/control.sock";

/** The flags of `run` whose values are fields of `Configuration`, by the name of the field. */
const OPTIONS = {
  strictConfig: option(
    "strict-config",
    boolean(),
    "Treat unknown and repeated fields of the configuration file as errors.",
  ),
  initOnly: option("init-only", boolean(), "Perform the steps that need full root privileges, then exit."),
  cleanup: option("cleanup", boolean(), "Remove all rules and exit."),
  maxMessageBytes: option(
    "max-msg-size",
    integer(DEFAULT_MESSAGE_BYTES),
    `The longest message accepted from a server, in bytes; ${DEFAULT_MESSAGE_BYTES} by default.`,
  ),
  serviceProxyName: option(
    "service-proxy-name",
    text(),
    "Serve exactly the services with this value of the label service.kubernetes.io/service-proxy-name; by default, " +
      "those without the label.",
  ),
  stateDirectory: option(
    "state-directory",
    text(),
    "The folder where the last state of a server is kept, to be served at a start without the server; none by default.",
  ),
  stateDelayMs: option(
    "state-delay",
    duration(),
    "How long the server may take at the start before the kept state is served, unless it fails earlier; 1s by default, or " +
      "0s if the kernel has no rules of a service proxy, as after a reboot.",
  ),
  master: option("master", text(), "The API server's address; overrides the one in the kubeconfig."),
  controlSocket: option(
    "control-socket",
    text(DEFAULT_CONTROL_SOCKET),
    "The unix socket for commands to the running proxy; empty for none.",
  ),
};

/** The flags of `run` that set no field of the configuration file. */
export const RUN_FLAGS = {
  ...OPTIONS,
  config: option(
    "config",
    text(),
    "The KubeProxyConfiguration file, YAML or JSON; with it, kube-proxy's flags are ignored.",
  ),
  writeConfigTo: option(
    "write-config-to",
    text(),
    "Write the resulting configuration to this file, or to standard output with -, and exit.",
  ),
  source: option(
    "source",
    text("kube"),
    "The source of services: kube; file:PATH, a file or folder of manifests; state:PATH, a KPNG state file; " +
      "grpc://HOST:PORT or unix://PATH, a server (sluice serve, or a KPNG program), or several, separated by commas, " +
      "of which one is watched and the next one takes over when it fails.",
  ),
  local: option(
    "local",
    boolean(),
    "With a server as the source, watch only what this node may use, as decided by the server.",
  ),
  tlsCa: option("api-client-tls-ca", text(), "The PEM file of the CA that must have signed the server's certificate."),
  tlsCrt: option("api-client-tls-crt", text(), "The PEM file of the client certificate for the server."),
  tlsKey: option("api-client-tls-key", text(), "The PEM file of the client certificate's key."),
  runtimeEndpoint: option(
    "container-runtime-endpoint",
    text(),
    "The container runtime's socket, asked for the addresses of this node's pods while the kept state is served: " +
      "unix:///run/containerd/containerd.sock, as for the kubelet; not asked by default.",
  ),
  healthzPort: deprecatedPort("healthz", HEALTHZ_PORT, "health"),
  metricsPort: deprecatedPort("metrics", METRICS_PORT, "metrics"),
};

function deprecatedPort(name: string, port: number, server: string) {
  const description = `Deprecated: use --${name}-bind-address. 0 disables the ${server} server.`;
  return option(`${name}-port`, integer(port), description);
}

/** The value of an option: undefined for an empty text, and for a duration that is not given. */
type OptionOf<F> = F extends Flag<infer Field>
  ? Field["kind"] extends "text" | "duration" ? ValueOf<Field> | undefined : ValueOf<Field>
  : never;

/** The part of the configuration that only flags set. */
export type RunOptions = { readonly [Name in keyof typeof OPTIONS]: OptionOf<typeof OPTIONS[Name]> };

/** Returns the options of the given flags, with the defaults of the others. */
export function runOptions(given: GivenFlags): RunOptions {
  const options = Object.entries<typeof OPTIONS[keyof typeof OPTIONS]>(OPTIONS).map(([name, flag]) => {
    const value = given.get(flag.name) ?? (flag.field.kind === "duration" ? undefined : flag.field.initial);
    return [name, value === "" ? undefined : value];
  });
  return Object.fromEntries(options) as RunOptions;
}
