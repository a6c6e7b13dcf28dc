/**
 * Writes tests/fixtures/kubernetes/api.json: the shapes of all kinds that Sluice reads or creates, in every supported
 * version of Kubernetes. They come from Go modules: k8s.io/kubernetes (its published OpenAPI v3), k8s.io/api (enumerated
 * values) and the Prometheus operator (its CRDs). Needs Go: `deno task record:api`.
 */
import { parse } from "yaml";
import { type Definitions, reduced, referred, type Schema } from "./schema.ts";
import { ENUMERATIONS, KUBERNETES_VERSIONS, PROMETHEUS_OPERATOR, READ_KINDS, WRITTEN_KINDS } from "./versions.ts";

/** A value and the first version that has it; the last entry that is not newer than a version applies to it. */
type Since<T> = readonly (readonly [version: string, value: T])[];

/** Downloads a Go module and returns its folder. Throws with Go's message. */
async function moduleFolder(module: string, version: string): Promise<string> {
  const args = ["mod", "download", "-json", `${module}@v${version}`];
  const { stdout } = await new Deno.Command("go", { args, cwd: "/", stderr: "inherit" }).output();
  const { Dir, Error: problem } = JSON.parse(new TextDecoder().decode(stdout)) as { Dir?: string; Error?: string };
  if (Dir === undefined) throw new Error(`go mod download: ${problem}`);
  return Dir;
}

/** A kind's name in the fixture: `v1 Service`. */
function kindName(apiVersion: string, kind: string): string {
  return `${apiVersion} ${kind}`;
}

/** The definitions of a version that the recorded kinds need, and the kinds' definitions by name. */
function shapesOf(folder: string) {
  const kinds: Record<string, string> = {};
  const definitions: Record<string, Schema> = {};
  for (const [apiVersion, names] of [...Object.entries(READ_KINDS), ...Object.entries(WRITTEN_KINDS)]) {
    const file = apiVersion.includes("/") ? `apis__${apiVersion.replace("/", "__")}` : `api__${apiVersion}`;
    const all = readDefinitions(`${folder}/api/openapi-spec/v3/${file}_openapi.json`);
    for (const kind of names) {
      const name = Object.keys(all).find((one) => isKind(all[one]!, apiVersion, kind));
      if (name === undefined) continue;
      kinds[kindName(apiVersion, kind)] = name;
      take(name, all, definitions);
    }
  }
  return { kinds, definitions };
}

/** The definitions of an OpenAPI document; none if the version does not have the API. */
function readDefinitions(path: string): Definitions {
  try {
    return JSON.parse(Deno.readTextFileSync(path)).components.schemas;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return {};
    throw error;
  }
}

function isKind(schema: Schema, apiVersion: string, kind: string): boolean {
  return (schema["x-kubernetes-group-version-kind"] ?? []).some((one) =>
    one.kind === kind && (one.group === "" ? one.version : `${one.group}/${one.version}`) === apiVersion
  );
}

function take(name: string, all: Definitions, taken: Record<string, Schema>): void {
  if (taken[name] !== undefined) return;
  taken[name] = reduced(all[name]!);
  for (const one of referred(taken[name])) take(one, all, taken);
}

/** Returns the values of enumerated types of Go, which the OpenAPI documents do not have. */
function enumerationsOf(folder: string): Record<string, readonly string[]> {
  const texts = Object.fromEntries(
    ["core/v1", "discovery/v1"].map((name) => [name, Deno.readTextFileSync(`${folder}/${name}/types.go`)]),
  );
  const entries = Object.entries(ENUMERATIONS).map(([type, file]) => {
    const literals = texts[file]!.matchAll(new RegExp(`^\\t\\w+ +${type} += "(.+)"$`, "gm"));
    const conversions = texts[file]!.matchAll(new RegExp(`^\\t\\w+ += ${type}\\((.+)\\)$`, "gm"));
    const values = [
      ...[...literals].map(([, value]) => value!),
      ...[...conversions].map(([, value]) => resolved(value!, texts["core/v1"]!)),
    ];
    if (values.length < 2) throw new Error(`${file}/types.go has no values of ${type}`);
    return [type, values.sort()] as const;
  });
  return Object.fromEntries(entries);
}

/** The text of a Go string literal, or of a constant in core/v1. */
function resolved(expression: string, core: string): string {
  if (expression.startsWith('"')) return expression.slice(1, -1);
  const name = expression.replace(/^v1\./, "");
  return new RegExp(`^\\t${name} +\\w+ += "(.+)"$`, "m").exec(core)![1]!;
}

/** Returns the schemas of the Prometheus operator's kinds. */
function monitoringShapes(folder: string) {
  const kinds: Record<string, string> = {};
  const definitions: Record<string, Schema> = {};
  for (const [kind, plural] of [["PodMonitor", "podmonitors"], ["PrometheusRule", "prometheusrules"]] as const) {
    const path = `${folder}/example/prometheus-operator-crd/monitoring.coreos.com_${plural}.yaml`;
    const { spec } = parse(Deno.readTextFileSync(path)) as {
      readonly spec: { readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: Schema } }[] };
    };
    const schema = reduced(spec.versions[0]!.schema.openAPIV3Schema);
    const metadata = { $ref: "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" };
    definitions[`com.coreos.monitoring.v1.${kind}`] = { ...schema, properties: { ...schema.properties, metadata } };
    kinds[kindName("monitoring.coreos.com/v1", kind)] = `com.coreos.monitoring.v1.${kind}`;
  }
  return { kinds, definitions };
}

/** Merges one record for each version into one with the versions in which a value changed; null where it is missing. */
function merged<T>(versions: readonly string[], records: readonly Readonly<Record<string, T>>[]) {
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))].sort();
  return Object.fromEntries(names.map((name): [string, Since<T | null>] => {
    const entries: (readonly [string, T | null])[] = [];
    records.forEach((record, index) => {
      const value = record[name] ?? null;
      const last = entries.at(-1)?.[1] ?? null;
      if (JSON.stringify(value) !== JSON.stringify(last)) entries.push([versions[index]!, value]);
    });
    return [name, entries];
  }));
}

/** Renders an object of lists, one entry of a list in a line. */
function lines(record: Readonly<Record<string, Since<unknown>>>): string {
  const blocks = Object.entries(record).map(([name, entries]) => {
    const rows = entries.map((entry) => `      ${JSON.stringify(entry)}`);
    return `    ${JSON.stringify(name)}: [\n${rows.join(",\n")}\n    ]`;
  });
  return `{\n${blocks.join(",\n")}\n  }`;
}

if (import.meta.main) {
  const monitoring = monitoringShapes(
    await moduleFolder("github.com/prometheus-operator/prometheus-operator", PROMETHEUS_OPERATOR),
  );
  const shapes = [];
  const enumerations = [];
  for (const version of KUBERNETES_VERSIONS) {
    const { kinds, definitions } = shapesOf(await moduleFolder("k8s.io/kubernetes", version));
    shapes.push({
      kinds: { ...kinds, ...monitoring.kinds },
      definitions: { ...definitions, ...monitoring.definitions },
    });
    enumerations.push(enumerationsOf(await moduleFolder("k8s.io/api", version.replace(/^1/, "0"))));
  }
  const minors = KUBERNETES_VERSIONS.map((version) => version.replace(/\.\d+$/, ""));
  const text = `{
  "versions": ${JSON.stringify(minors)},
  "kinds": ${lines(merged(minors, shapes.map(({ kinds }) => kinds)))},
  "enumerations": ${lines(merged(minors, enumerations))},
  "definitions": ${lines(merged(minors, shapes.map(({ definitions }) => definitions)))}
}
`;
  const folder = new URL("../../tests/fixtures/kubernetes/", import.meta.url);
  Deno.mkdirSync(folder, { recursive: true });
  Deno.writeTextFileSync(new URL("api.json", folder), text);
}
