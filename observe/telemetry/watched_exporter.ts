import { type ExportResult, ExportResultCode } from "@opentelemetry/core";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { errorText } from "../../platform/mod.ts";
import { shownUrl, type Signal } from "../mod.ts";

/** The method that exporters of all signals have. */
interface Exporter<Items> {
  export(items: Items, done: (result: ExportResult) => void): void;
}

/** Reports a problem while the exports of a signal to this URL fail. Returns the exporter. */
export function watchExporter<Items, Watched extends Exporter<Items>>(
  exporter: Watched & Exporter<Items>,
  signal: Signal,
  url: URL,
  onProblems: ReportProblems,
): Watched {
  const run = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    run(items, (result) => {
      const failed = { code: "telemetry-not-exported", subject: `${signal} to ${shownUrl(url)}` } as const;
      onProblems(
        "telemetry " + signal,
        result.code === ExportResultCode.SUCCESS ? [] : [{ ...failed, detail: reasonOf(result.error) }],
      );
      done(result);
    });
  return exporter;
}

/** The reason without parts that differ from try to try, such as the local port. */
function reasonOf(error: Error | undefined): string {
  if (error === undefined) return "no reason given";
  const { code } = error as { readonly code?: unknown };
  return typeof code === "number" ? `HTTP status ${code}` : errorText(error).replace(/ - Local \(.*\)$/, "");
}
