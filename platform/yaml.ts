let loading: Promise<typeof import("./yaml_text.ts")> | undefined;

/** Loads the reader and writer of YAML on first use: package js-yaml takes megabytes. */
export function loadYaml(): Promise<typeof import("./yaml_text.ts")> {
  return loading ??= import("./yaml_text.ts");
}
