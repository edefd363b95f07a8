import type { CompiledException, CompiledPolicy } from '../compiled-policy.ts';
import { isJsonObject, ownValue, type JsonObject } from '../../../json/json.ts';
import { matchesSelector } from '../../../json/label-selector.ts';
import type { AdmissionRequest } from '../../review/request.ts';

/** Which checks of a policy a request is spared. */
export interface Exemption {
  /** By the name of a group of checks (`rules`) or of one check. */
  readonly spares: (group: string, name?: string) => boolean;
  /** The names of the exceptions that apply, for the audit log. */
  readonly names: readonly string[];
}

const NONE: Exemption = { spares: () => false, names: [] };

/** What exceptions look at. */
type Excusable = Pick<AdmissionRequest, 'userInfo' | 'namespace' | 'name' | 'object' | 'oldObject'>;

/** @param now in milliseconds since 1970 */
export function exemptionOf(
  { exceptions }: Pick<CompiledPolicy, 'exceptions'>,
  request: Excusable,
  now: number,
): Exemption {
  if (exceptions.length === 0) return NONE;
  const applying = exceptions.filter((exception) => applies(exception, request, now));
  if (applying.length === 0) return NONE;
  return {
    spares: (group, name) =>
      applying.some(
        ({ checks }) =>
          checks === undefined || checks.includes(group) || (name !== undefined && checks.includes(name)),
      ),
    names: applying.map(({ name }) => name),
  };
}

function applies(
  { expiresAt, users, groups, namespaces, names, objectSelector }: CompiledException,
  { userInfo, namespace, name, object, oldObject }: Excusable,
  now: number,
): boolean {
  return (
    (expiresAt === undefined || now < expiresAt) &&
    (users === undefined || isListed(users, userInfo.username)) &&
    (groups === undefined || userInfo.groups.some((group) => groups.includes(group))) &&
    (namespaces === undefined || (namespace !== undefined && isListed(namespaces, namespace))) &&
    (names === undefined || (name !== undefined && isListed(names, name))) &&
    matchesSelector(objectSelector, labelsOf(object ?? oldObject))
  );
}

function isListed(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern,
  );
}

export function labelsOf(object: JsonObject | undefined): Readonly<Record<string, string>> {
  const metadata = object === undefined ? undefined : ownValue(object, 'metadata');
  const labels = isJsonObject(metadata) ? ownValue(metadata, 'labels') : undefined;
  if (!isJsonObject(labels)) return {};
  return Object.fromEntries(
    Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}
