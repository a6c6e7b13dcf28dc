import { canonicalAddress, fileErrorText, joinHostPort } from "../platform/mod.ts";
import { fieldAt } from "../platform/schema/mod.ts";
import { type GivenForms, type ParseYaml, readConfigurationFile } from "./file.ts";
import { FLAGS } from "./flag_table.ts";
import { type Flag, flagValue, type GivenFlags } from "./command_spec.ts";
import { defaultSettings, FIELDS, type Settings } from "./kube_proxy_configuration.ts";
import { RUN_FLAGS } from "./run_flags.ts";

/** The settings from file and flags, and the origin of each. */
interface GivenSettings {
  readonly settings: Settings;
  /** The start of a message about the setting at a dotted path: `FILE:LINE: path`, or the flag. */
  readonly originOf: (path: string) => string;
  readonly forms: GivenForms;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

const NO_EFFECT = "accepted, but has no effect in Sluice";

/**
 * Reads the settings from the configuration file, if one is named, or else from the flags. As in kube-proxy
 * (cmd/kube-proxy/app/options.go), its flags do not override a file, except for logging flags and `--hostname-override`; a
 * warning names the ignored ones. Flags that only Sluice has win over a file. A file needs `parseYaml`.
 */
export function readSettings(
  given: GivenFlags,
  readFile: (path: string) => string,
  parseYaml: ParseYaml | undefined,
): GivenSettings {
  const file = flagValue(given, RUN_FLAGS.config) || undefined;
  const strict = flagValue(given, RUN_FLAGS.strictConfig) ?? false;
  const base = file === undefined ? withoutFile() : readNamedFile(file, strict, readFile, parseYaml);
  const { settings, errors } = base;
  const warnings = [...base.warnings, ...ineffectiveIn(settings, base.origins)];
  const origins = new Map(base.origins), forms: Record<string, unknown> = { ...base.forms };

  const flags = FLAGS.filter((flag) => given.has(flag.name));
  const ineffective = flags.filter((flag) => !flag.effective);
  if (ineffective.length > 0) warnings.push(`${list(ineffective)}: ${NO_EFFECT}`);
  const ignored = flags.filter((flag) => file !== undefined && flag.effective && !flag.besideConfig);
  if (ignored.length > 0) warnings.push(`${list(ignored)}: ignored because --config is given`);

  const mode = String(given.get("proxy-mode") ?? "");
  for (const flag of flags) {
    const path = flag.setting?.(mode);
    if (path === undefined || file !== undefined && !flag.besideConfig) continue;
    fieldAt(FIELDS, path).set(settings, given.get(flag.name));
    if (flag.field.kind === "texts") forms[path] = given.get(flag.name);
    origins.set(path, `--${flag.name}`);
  }
  if (file === undefined) warnings.push(...applyDeprecatedPorts(given, settings));
  return { settings, originOf: (path) => originOf(path, origins, file), forms, errors, warnings };
}

function withoutFile() {
  return { settings: defaultSettings(), origins: new Map<string, string>(), forms: {}, errors: [], warnings: [] };
}

function readNamedFile(
  file: string,
  strict: boolean,
  readFile: (path: string) => string,
  parseYaml: ParseYaml | undefined,
) {
  if (parseYaml === undefined) throw new Error("a configuration file needs the parser of YAML");
  let content: string;
  try {
    content = readFile(file);
  } catch (error) {
    return { ...withoutFile(), errors: [`--config: cannot read ${file}: ${fileErrorText(error)}`] };
  }
  return readConfigurationFile(file, content, strict, parseYaml);
}

/** A warning about the fields without effect that a file sets to something other than their default. */
function ineffectiveIn(settings: Settings, origins: ReadonlyMap<string, string>): string[] {
  const defaults = defaultSettings();
  const named = FLAGS.flatMap((flag) => {
    const path = flag.effective ? undefined : flag.setting?.("");
    const origin = path === undefined ? undefined : origins.get(path);
    if (path === undefined || origin === undefined) return [];
    const place = fieldAt(FIELDS, path);
    return place.get(settings) === place.get(defaults) ? [] : [origin];
  });
  return named.length === 0 ? [] : [`${named.sort().join(", ")}: ${NO_EFFECT}`];
}

/** The origin of the setting at a path; of its flag, or the file, if it was not set. */
function originOf(path: string, origins: ReadonlyMap<string, string>, file: string | undefined): string {
  const known = origins.get(path);
  if (known !== undefined) return known;
  const flag = FLAGS.find((flag) => flag.setting?.("") === path.replace(/\[\d+\]$/, ""));
  if (file === undefined && flag !== undefined) return `--${flag.name}`;
  return file === undefined ? path : `${file}: ${path}`;
}

/** As in kube-proxy, a deprecated port flag completes an address without a port; the caller handles 0. */
function applyDeprecatedPorts(given: GivenFlags, settings: Settings): string[] {
  const warnings: string[] = [];
  for (const name of ["healthz", "metrics"] as const) {
    const port = flagValue(given, RUN_FLAGS[`${name}Port`]);
    if (port === undefined) continue;
    warnings.push(`--${name}-port is deprecated: use --${name}-bind-address`);
    const bare = canonicalAddress(settings[`${name}BindAddress`]);
    if (bare !== undefined && port !== 0) settings[`${name}BindAddress`] = joinHostPort(bare, port);
  }
  return warnings;
}

function list(flags: readonly Flag[]): string {
  return flags.map((flag) => `--${flag.name}`).join(", ");
}
