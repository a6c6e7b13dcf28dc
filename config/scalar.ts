import { parseInteger } from "../platform/mod.ts";
import { parseDuration, type ScalarField } from "../platform/schema/mod.ts";

/** A parsed value, or the expectation that it does not meet. */
type ScalarReading = { readonly value: string | number | boolean } | { readonly must: string };

const MUST_BE_DURATION = "a duration such as 300ms, 30s or 1h30m";
const MUST_BE_INTEGER = "a 32-bit integer";
const QUANTITY = /^[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$/;

/** Reads a value from a configuration file, in which numbers and booleans are typed. */
export function readScalar(field: ScalarField, value: unknown): ScalarReading {
  switch (field.kind) {
    case "text":
      return typeof value === "string" ? { value } : { must: "a string (quote it if it looks like another type)" };
    case "boolean":
      return typeof value === "boolean" ? { value } : { must: "true or false" };
    case "integer":
      return typeof value === "number" && isInt32(value) ? { value } : { must: MUST_BE_INTEGER };
    case "number":
      return typeof value === "number" && Number.isFinite(value) ? { value } : { must: "a number" };
    case "duration": {
      if (field.nanoseconds && typeof value === "number" && Number.isInteger(value)) return { value: value / 1e6 };
      const ms = typeof value === "string" ? parseDuration(value) : undefined;
      return ms === undefined ? { must: MUST_BE_DURATION } : { value: ms };
    }
    case "quantity":
      if ((typeof value === "string" || typeof value === "number") && QUANTITY.test(String(value))) {
        return { value: String(value) };
      }
      return { must: "a quantity such as 0 or 64Ki" };
  }
}

/** Parses a value from the command line, in the syntax of Go's flag packages. */
export function parseScalar(field: ScalarField, given: string): ScalarReading {
  switch (field.kind) {
    case "text":
      return { value: given };
    case "boolean":
      if (/^(1|t|T|true|True|TRUE)$/.test(given)) return { value: true };
      return /^(0|f|F|false|False|FALSE)$/.test(given) ? { value: false } : { must: "true or false" };
    case "integer": {
      const parsed = parseInteger(given);
      return parsed !== undefined && isInt32(parsed) ? { value: parsed } : { must: MUST_BE_INTEGER };
    }
    case "number": {
      const parsed = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(given) ? Number(given) : NaN;
      return Number.isFinite(parsed) ? { value: parsed } : { must: "a number" };
    }
    case "duration": {
      const ms = parseDuration(given);
      return ms === undefined ? { must: MUST_BE_DURATION } : { value: ms };
    }
    case "quantity":
      return readScalar(field, given);
  }
}

function isInt32(value: number): boolean {
  return Number.isInteger(value) && value >= -(2 ** 31) && value < 2 ** 31;
}
