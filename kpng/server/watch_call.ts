import { METHODS, WATCH_REQUEST } from "../messages/mod.ts";
import { STATUS, StatusError } from "../transport/mod.ts";
import type { Subscription } from "./answers.ts";
import type { Call } from "./call.ts";
import type { WatcherStream } from "./watcher.ts";

/** The scope of a watch's path; undefined for another method. */
export function scopeOf(path: string): Subscription["scope"] | undefined {
  return path === METHODS.global ? "global" : path === METHODS.local ? "local" : undefined;
}

/** The stream of a call of `Watch`. Its subscription is that of the first request. */
export function openWatch(call: Call, scope: Subscription["scope"]): WatcherStream {
  const { next, write } = call.open((message): Subscription => {
    const { nodeName = "", extended = false, onlyNode } = WATCH_REQUEST.decode(message);
    return { scope, nodeName, extended, onlyNode: extended ? onlyNode : undefined };
  });
  let subscribed: Subscription | undefined;
  return {
    async nextRequest() {
      const request = await next();
      // The differences are relative to what this stream has received for its node.
      if (request !== undefined && subscribed !== undefined && request.nodeName !== subscribed.nodeName) {
        throw new StatusError(STATUS.invalidArgument, "the node of a stream cannot change");
      }
      subscribed ??= request;
      return request && subscribed;
    },
    write,
  };
}
