import { CelError } from '../cel-error.ts';
import { parsing, traversal } from '../frame.ts';
import { CEL_TYPE, type CelMap } from '../values/values.ts';
import { define } from './define.ts';
import { escapedPath, InvalidUrl, parseRequestUrl, queryPairs } from './go-url.ts';
import { succeeds } from './text.ts';
import type { CelUrl } from './opaque-values.ts';

/** @throws CelError unless it is an absolute URL or an absolute path */
function parseUrl(text: string): CelUrl {
  try {
    const asRequest = parseRequestUrl(text, false);
    const parts = text.includes('#') ? parseRequestUrl(text, true) : asRequest;
    return { [CEL_TYPE]: 'kubernetes.URL', parts, identity: JSON.stringify(parts) };
  } catch (cause) {
    if (!(cause instanceof InvalidUrl)) throw cause;
    throw new CelError(`URL parse error during conversion from string: ${cause.message}`, { cause });
  }
}

const HOST = /^(.*?)(?::(\d*))?$/s;

function splitHost({ parts: { host } }: CelUrl): { readonly name: string; readonly port: string } {
  const [, name = '', port = ''] = HOST.exec(host) ?? [];
  const bracketed = /^\[(.*)\]$/s.exec(name)?.[1];
  return { name: bracketed ?? name, port };
}

function query({ parts }: CelUrl): CelMap {
  const values = new Map<string, string[]>();
  for (const [key, value] of queryPairs(parts.query)) {
    const known = values.get(key);
    if (known === undefined) values.set(key, [value]);
    else known.push(value);
  }
  return values;
}

const ofHost = ({ parts }: CelUrl) => 1 + traversal(parts.host.length);
const ofQuery = ({ parts }: CelUrl) => 1 + traversal(parts.query.length);

/** URL functions. They parse as Go does, not as browsers do. */
export const url = [
  define('url(string): url', parseUrl, parsing),
  define('isURL(string): bool', succeeds(parseUrl), parsing),
  define('<url>.getScheme(): string', ({ parts }) => parts.scheme),
  define('<url>.getHost(): string', ({ parts }) => parts.host),
  define('<url>.getHostname(): string', (self) => splitHost(self).name, ofHost),
  define('<url>.getPort(): string', (self) => splitHost(self).port, ofHost),
  define(
    '<url>.getEscapedPath(): string',
    ({ parts }) => escapedPath(parts.path),
    ({ parts }) => 1 + traversal(parts.path.length),
  ),
  define('<url>.getQuery(): map<string, list<string>>', query, ofQuery),
];
