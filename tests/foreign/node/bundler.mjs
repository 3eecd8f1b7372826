// The TypeScript SDK imports its generated files without `.js`, as bundlers take it and Node.js does not.
// This resolver adds the ending, as a bundler would; the package stays as it is published.
// It also brings what js-libp2p wants and older Node.js does not have.
// Usage: node --import ./bundler.mjs SCRIPT

import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

// js-libp2p wants it; Node.js has it from version 22.
Promise.withResolvers ??= function withResolvers() {
  let resolve, reject;
  const promise = new this((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
};

if (isMainThread) register(import.meta.url);

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND" || !/^\.\.?\//.test(specifier)) throw error;
    return next(`${specifier}.js`, context);
  }
}
