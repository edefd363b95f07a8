import type { JsonObject } from '../../../json/json.ts';
import { optionalText, record, text, number } from '../../fields.ts';
import { subdomainProblem } from '../../dns-names.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, requiredValue } from '../../schema/causes.ts';
import { isPort, PORT_RANGE } from '../name-problems.ts';

// The rules of k8s.io/apiserver/pkg/util/webhook/validation.go, in the same order and words.

/** The problems of a WebhookClientConfig. */
export function clientConfigProblems(config: JsonObject, field: string): readonly Cause[] {
  const url = optionalText(config, 'url');
  const service = record(config, 'service');
  if ((url === undefined) === (service === undefined)) {
    return [requiredValue(field, 'exactly one of url or service is required')];
  }
  return [
    ...(url === undefined ? [] : urlProblems(url, `${field}.url`)),
    ...(service === undefined ? [] : serviceProblems(service, `${field}.service`)),
  ];
}

const FORM = '; desired format: https://host[/path]';
/** RFC 3986, appendix B, with the authority split into its parts. */
const URL_PARTS =
  /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/(?:([^/?#@]*)@)?([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/;

// eslint-disable-next-line no-control-regex -- the pattern searches for control characters
const CONTROL = /[\u0000-\u001f\u007f]/;

function urlProblems(url: string, field: string): readonly Cause[] {
  const broken = syntaxProblem(url);
  if (broken !== undefined)
    return [requiredValue(field, `url must be a valid URL: parse ${JSON.stringify(url)}: ${broken}${FORM}`)];
  const [, scheme = '', user, host = '', , query = '', fragment = ''] = URL_PARTS.exec(url) ?? [];
  return [
    ...(scheme.toLowerCase() === 'https'
      ? []
      : [invalidValue(field, scheme.toLowerCase(), `'https' is the only allowed URL scheme${FORM}`)]),
    ...(host === '' ? [invalidValue(field, host, `host must be provided${FORM}`)] : []),
    ...(user === undefined
      ? []
      : [invalidValue(field, user, 'user information is not permitted in the URL')]),
    ...(fragment === '' ? [] : [invalidValue(field, fragment, 'fragments are not permitted in the URL')]),
    ...(query === '' ? [] : [invalidValue(field, query, 'query parameters are not permitted in the URL')]),
  ];
}

/** The error of Go's net/url for common mistakes. */
function syntaxProblem(url: string): string | undefined {
  if (CONTROL.test(url)) return 'net/url: invalid control character in URL';
  if (url.startsWith(':')) return 'missing protocol scheme';
  const host = URL_PARTS.exec(url)?.[3] ?? '';
  const odd = /[\s"<>\\^`{|}]/.exec(host)?.[0];
  if (odd !== undefined) return `invalid character ${JSON.stringify(odd)} in host name`;
  const port = /:([^:\]]*)$/.exec(host)?.[1] ?? '';
  if (/\D/.test(port)) return `invalid port ${JSON.stringify(`:${port}`)} after host`;
  const escape = /%(?![0-9A-Fa-f]{2}).{0,2}/.exec(url)?.[0];
  return escape === undefined ? undefined : `invalid URL escape ${JSON.stringify(escape)}`;
}

function serviceProblems(service: JsonObject, field: string): readonly Cause[] {
  const port = number(service, 'port') ?? 443;
  return [
    ...(text(service, 'name') === '' ? [requiredValue(`${field}.name`, 'service name is required')] : []),
    ...(text(service, 'namespace') === ''
      ? [requiredValue(`${field}.namespace`, 'service namespace is required')]
      : []),
    ...(isPort(port) ? [] : [invalidValue(`${field}.port`, port, `port is not valid: ${PORT_RANGE}`)]),
    ...pathProblems(text(service, 'path'), `${field}.path`),
  ];
}

/** Each path segment must be a DNS subdomain; only the last may be empty. */
function pathProblems(path: string, field: string): readonly Cause[] {
  if (path === '' || path === '/') return [];
  if (path === '//') return [invalidValue(field, path, 'segment[0] may not be empty')];
  // The API server drops the first character without checking it.
  const segments = path.slice(1).replace(/\/$/, '').split('/');
  return [
    ...(path.startsWith('/') ? [] : [invalidValue(field, path, "must start with a '/'")]),
    ...segments.flatMap((segment, index) => {
      if (segment === '') return [invalidValue(field, path, `segment[${index}] may not be empty`)];
      const problem = subdomainProblem(segment);
      return problem === undefined ? [] : [invalidValue(field, path, `segment[${index}]: ${problem}`)];
    }),
  ];
}
