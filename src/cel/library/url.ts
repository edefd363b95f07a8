import { CelError } from '../cel-error.ts';
import { CEL_TYPE, type CelMap, parsing, traversal } from '../values/values.ts';
import { type CelUrl, define, type GoUrl } from './define.ts';
import { succeeds } from './text.ts';

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
  const byKey = Map.groupBy(queryPairs(parts.query), ([key]) => key);
  return new Map([...byKey].map(([key, pairs]) => [key, pairs.map(([, value]) => value)]));
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

export class InvalidUrl extends Error {
  override name = 'InvalidUrl';

  constructor(url: string, why: string) {
    super(`parse ${JSON.stringify(url)}: ${why}`);
  }
}

// eslint-disable-next-line no-control-regex -- control characters are what Go refuses
const CONTROL = /[\x00-\x1f\x7f]/;
const SCHEME = /^([a-z][a-z0-9+.-]*):/i;

/** An absolute URL or an absolute path. `fragments`: whether `#` starts one; not in requests. @throws InvalidUrl */
export function parseRequestUrl(text: string, fragments: boolean): GoUrl {
  if (CONTROL.test(text)) throw new InvalidUrl(text, 'net/url: invalid control character in URL');
  if (text === '') throw new InvalidUrl(text, 'empty url');
  const hash = fragments ? text.indexOf('#') : -1;
  const whole = hash === -1 ? text : text.slice(0, hash);
  const fragment = hash === -1 ? '' : checked(text, text.slice(hash + 1));
  if (whole.startsWith(':')) throw new InvalidUrl(text, 'missing protocol scheme');
  const scheme = SCHEME.exec(whole)?.[1] ?? '';
  const rest = scheme === '' ? whole : whole.slice(scheme.length + 1);
  const question = rest.indexOf('?');
  const query = question === -1 ? '' : rest.slice(question + 1);
  const hierarchy = question === -1 ? rest : rest.slice(0, question);
  const parts = { scheme: scheme.toLowerCase(), user: '', host: '', path: '', query, fragment };
  if (!hierarchy.startsWith('/')) {
    if (scheme !== '' || text === '*') return { ...parts, path: text === '*' ? '*' : '' };
    throw new InvalidUrl(text, 'invalid URI for request');
  }
  if (scheme === '' || !hierarchy.startsWith('//')) return { ...parts, path: checked(text, hierarchy) };
  const [, authority = '', path = ''] = /^\/\/([^/]*)(.*)$/s.exec(hierarchy) ?? [];
  return { ...parts, ...authorityOf(text, authority), path: checked(text, path) };
}

const BAD_ESCAPE = /%(?![0-9a-f]{2}).{0,2}/is;

function checked(url: string, part: string): string {
  const [bad] = BAD_ESCAPE.exec(part) ?? [];
  if (bad !== undefined) throw new InvalidUrl(url, `invalid URL escape ${JSON.stringify(bad)}`);
  return part;
}

const USER = /^[A-Za-z0-9._:~!$&'()*+,;=%@-]*$/;

function authorityOf(url: string, authority: string): Pick<GoUrl, 'user' | 'host'> {
  const at = authority.lastIndexOf('@');
  const user = at === -1 ? '' : authority.slice(0, at);
  if (!USER.test(user)) throw new InvalidUrl(url, 'net/url: invalid userinfo');
  checked(url, user);
  return { user, host: hostOf(url, authority.slice(at + 1)) };
}

const PORT = /^(?::\d*)?$/;
const BAD_HOST_CHARACTER = /[^A-Za-z0-9._~!$&'()*+,;=:[\]<>"%\x80-\uffff-]/;
/** In a host, the only ASCII character that may be escaped is the percent sign of a zone. */
const BAD_HOST_ESCAPE = /%(?![89a-f][0-9a-f]|25).{0,2}/i;

function hostOf(url: string, host: string): string {
  const end = host.startsWith('[') ? host.lastIndexOf(']') : host.indexOf(':');
  if (host.startsWith('[') && end === -1) throw new InvalidUrl(url, "missing ']' in host");
  const port = end === -1 ? '' : host.slice(host.startsWith('[') ? end + 1 : end);
  if (!PORT.test(port)) throw new InvalidUrl(url, `invalid port ${JSON.stringify(port)} after host`);
  const [escape] = BAD_HOST_ESCAPE.exec(host) ?? [];
  if (escape !== undefined) throw new InvalidUrl(url, `invalid URL escape ${JSON.stringify(escape)}`);
  const [character] = BAD_HOST_CHARACTER.exec(host) ?? [];
  if (character !== undefined)
    throw new InvalidUrl(url, `invalid character ${JSON.stringify(character)} in host name`);
  return unescapeUrl(host);
}

function unescapeUrl(text: string): string {
  if (!text.includes('%')) return text;
  const bytes = text
    .split(/%([0-9a-f]{2})/i)
    .map((part, index) => (index % 2 === 1 ? Buffer.from(part, 'hex') : Buffer.from(part)));
  return Buffer.concat(bytes).toString();
}

const VALID_IN_PATH = /^[A-Za-z0-9._~!$&'()*+,;=:@[\]%/-]*$/;

function escapedPath(path: string): string {
  if (VALID_IN_PATH.test(path)) return path;
  return Array.from(Buffer.from(unescapeUrl(path)), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9._~$&+,/:;=@-]/.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }).join('');
}

/** Keys and values in order. Omits malformed pairs, as Go does. */
function queryPairs(query: string): readonly (readonly [string, string])[] {
  return query
    .split('&')
    .filter((pair) => pair !== '' && !pair.includes(';') && !BAD_ESCAPE.test(pair))
    .map((pair) => {
      const equals = pair.indexOf('=');
      const [key, value] = equals === -1 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)];
      const plain = (text: string) => unescapeUrl(text.replaceAll('+', ' '));
      return [plain(key), plain(value)];
    });
}
