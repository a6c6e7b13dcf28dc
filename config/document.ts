import { FAMILIES, loadYaml } from "../platform/mod.ts";
import type { Configuration } from "./configuration.ts";
import { formatDuration } from "./duration.ts";
import { type Field, type Fields, valueName } from "./fields.ts";
import { API_VERSION, FIELDS, KIND } from "./kube_proxy_configuration.ts";

/**
 * The configuration as a KubeProxyConfiguration v1alpha1 with every field, as written by `--write-config-to` and shown by
 * `/configz`. Values that the file format cannot express (a disabled address) are empty.
 */
export function documentOf(configuration: Configuration): Readonly<Record<string, unknown>> {
  const values = {
    ...configuration,
    clusterCIDR: FAMILIES.flatMap((family) => configuration.clusterCIDR[family] ?? []).join(","),
    healthzBindAddress: configuration.healthzBindAddress ?? "",
    metricsBindAddress: configuration.metricsBindAddress ?? "",
  };
  return { apiVersion: API_VERSION, kind: KIND, ...section(FIELDS, values) };
}

/** Formats the configuration as a KubeProxyConfiguration in YAML. */
export async function writeDocument(configuration: Configuration): Promise<string> {
  const { stringify } = await loadYaml();
  return stringify(documentOf(configuration), { version: "1.1" });
}

/** Warnings about flags that a file cannot express: there, an empty or zero value means the default. */
export function unwritable(configuration: Configuration): readonly string[] {
  const { healthzBindAddress, metricsBindAddress } = configuration;
  const warnings: string[] = [];
  if (healthzBindAddress === undefined) warnings.push("healthzBindAddress: a file cannot disable the health server");
  if (metricsBindAddress === undefined) warnings.push("metricsBindAddress: a file cannot disable the metrics server");
  return warnings;
}

function section(fields: Fields, values: object): Record<string, unknown> {
  const entries = Object.entries<Field>(fields).map(([name, field]) => {
    const value = (values as Record<string, unknown>)[valueName(name, field)];
    return [name, written(field, value)];
  });
  return Object.fromEntries(entries);
}

function written(field: Field, value: unknown): unknown {
  if (field.kind === "section") return section(field.fields, value as object);
  if (field.kind === "sections") return (value as object[]).map((item) => section(field.fields, item));
  return field.kind === "duration" ? formatDuration(value as number) : value;
}
