/** The URL at which a cluster reaches `gatehouse serve` on the machine of a developer. */
import { isIP } from 'node:net';

export type DevUrl = ReturnType<typeof parseDevUrl>;

const FORM = 'write https://host:port, at which the API server can reach this machine';
const DNS_NAME = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;

/** A URL that the API server allows as `clientConfig.url`. @throws an error whose message is a full sentence */
export function parseDevUrl(text: string) {
  const url = URL.parse(text.trim());
  if (url === null) throw new Error(`"${text}" is not a URL; ${FORM}`);
  if (url.username !== '' || url.password !== '')
    throw new Error('the URL of a webhook must not contain a user or a password; remove them');
  // From here on, the text contains no password, so messages may repeat it.
  if (url.protocol !== 'https:') throw new Error(`"${text}" is not https, which webhooks require; ${FORM}`);
  if (/[?#]/.test(text))
    throw new Error(`"${text}" has a query or a fragment, which webhooks must not have; ${FORM}`);
  if (url.pathname !== '/')
    throw new Error(`"${text}" has a path, but each webhook entry adds its own; ${FORM}`);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) === 0 && !DNS_NAME.test(host))
    throw new Error(`"${host}" is neither a DNS name nor an IP address; ${FORM}`);
  if (host === '0.0.0.0' || host === '::')
    throw new Error(`"${host}" is an address to listen on; the API server cannot connect to it; ${FORM}`);
  return Object.freeze({ origin: url.origin, host, port: url.port === '' ? 443 : Number(url.port) });
}
