import { STATUS } from "../transport/mod.ts";

/** The answer to a call that is not carried out. */
export interface Refusal {
  readonly httpStatus: number;
  /** gRPC's status. */
  readonly status: number;
  readonly message: string;
}

/** The headers of a call. */
export interface CallHeaders {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The time that the client gives the call, in milliseconds; undefined for any. */
  readonly timeoutMs: number | undefined;
}

/** Milliseconds of the units of `grpc-timeout`. */
const UNITS_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** Reads the headers of a call, or refuses it (gRPC: PROTOCOL-HTTP2.md, with the HTTP statuses of grpc-go). */
export function readCallHeaders(headers: Readonly<Record<string, unknown>>): CallHeaders | Refusal {
  const text = (name: string) => String(headers[name] ?? "");
  const method = text(":method");
  if (method !== "POST") {
    return { httpStatus: 405, status: STATUS.internal, message: `the HTTP method is ${method}, must be POST` };
  }
  const type = text("content-type");
  if (!/^application\/grpc(\+proto)?\s*(;|$)/i.test(type)) {
    const message = `the content type is ${JSON.stringify(type)}, must be application/grpc`;
    return { httpStatus: 415, status: STATUS.invalidArgument, message };
  }
  const encoding = text("grpc-encoding");
  if (encoding !== "" && encoding !== "identity") {
    const message = `the compression ${JSON.stringify(encoding)} is not supported`;
    return { httpStatus: 200, status: STATUS.unimplemented, message };
  }
  const timeout = text("grpc-timeout");
  const [, amount, unit] = /^(\d{1,8})([HMSmun])$/.exec(timeout) ?? [];
  if (timeout !== "" && unit === undefined) {
    const message = `grpc-timeout is ${JSON.stringify(timeout)}, must be up to eight digits and a unit`;
    return { httpStatus: 400, status: STATUS.internal, message };
  }
  return { path: text(":path"), timeoutMs: unit === undefined ? undefined : Number(amount) * UNITS_MS[unit]! };
}
