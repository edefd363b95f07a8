import type { JsonObject } from '../../../json/json.ts';
import { optionalText, record, text, number } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { label1035Problem, portProblem } from '../../name-problems.ts';
import { invalidIf, invalidValue, requiredValue, when } from '../../schema/causes.ts';

// What admission webhooks and conversion webhooks share: the main rules of k8s.io/apiserver/pkg/util/webhook/validation.go, in the same order and words.

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

function urlProblems(url: string, field: string): readonly Cause[] {
  const [, given = '', user, host = '', , query = '', fragment = ''] = URL_PARTS.exec(url) ?? [];
  const scheme = given.toLowerCase();
  const invalid = (part: string, why: string) => invalidValue(field, part, why);
  return [
    ...when(scheme !== 'https', invalid(scheme, `'https' is the only allowed URL scheme${FORM}`)),
    ...when(host === '', invalid(host, `host must be provided${FORM}`)),
    ...when(user !== undefined, invalid(user ?? '', 'user information is not permitted in the URL')),
    ...when(fragment !== '', invalid(fragment, 'fragments are not permitted in the URL')),
    ...when(query !== '', invalid(query, 'query parameters are not permitted in the URL')),
  ];
}

function serviceProblems(service: JsonObject, field: string): readonly Cause[] {
  const port = number(service, 'port') ?? 443;
  const problem = portProblem(port);
  return [
    ...['name', 'namespace']
      .filter((name) => text(service, name) === '')
      .map((name) => requiredValue(`${field}.${name}`, `service ${name} is required`)),
    ...invalidIf(`${field}.port`, port, problem && `port is not valid: ${problem}`),
  ];
}

const REVIEW_VERSIONS = ['v1', 'v1beta1'];

/** @param whenEmpty the detail for an empty list */
export function reviewVersionProblems(
  versions: readonly string[],
  field: string,
  whenEmpty = '',
): readonly Cause[] {
  if (versions.length === 0) return [requiredValue(field, whenEmpty)];
  const isKnown = versions.some((version) => REVIEW_VERSIONS.includes(version));
  return [
    ...versions.flatMap((version, index) => {
      const isRepeated = versions.indexOf(version) < index;
      const problem = isRepeated ? 'duplicate version' : label1035Problem(version);
      return invalidIf(`${field}[${index}]`, version, problem);
    }),
    ...when(
      !isKnown,
      invalidValue(field, versions, `must include at least one of ${REVIEW_VERSIONS.join(', ')}`),
    ),
  ];
}
