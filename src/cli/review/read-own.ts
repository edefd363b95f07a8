/** Reads the objects of the kinds of Gatehouse. */
import { validateCreate } from '../../machinery/objects/validate.ts';
import { isEqual, textIn } from '../../json/json.ts';
import { GROUP, VERSION } from '../../api/group.ts';
import { typeAt } from '../../admission/policy/fields/field-flaw.ts';
import { objectType } from '../../cel/types/schema-type.ts';
import { tryParsePath } from '../../json/field-path.ts';
import { schemaToJson } from '../../machinery/schema/schema.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import { decodeObject } from '../../machinery/objects/decode.ts';
import type { ResourceRegistry, ResourceType } from '../../machinery/resource-type.ts';
import { SILENT } from './api-server.ts';
import type { Locate } from './locate.ts';
import { describePlace, joined, type Parsed, type PlacedObject } from './documents.ts';

/** An object of a kind of Gatehouse, and its label in messages. */
export interface Labelled<T> {
  /** e.g. `policies/servers.yaml:1: AdmissionPolicy servers` */
  readonly label: string;
  readonly object: T;
  /** The label with the place of a field. */
  readonly labelOf: (...field: Parameters<Locate>) => string;
}

const API_VERSION = `${GROUP}/${VERSION}`;

/**
 * Reads the objects of a kind with defaults and validation, like the API server. Stricter in one point: an unknown
 * field is an error.
 *
 * @typeParam T from which the CRD of the kind is generated
 */
export function readOwn<T>(
  kind: string,
  objects: readonly PlacedObject[],
  registry: Pick<ResourceRegistry, 'findKind'>,
): Parsed<Labelled<T>> {
  const type = registry.findKind(API_VERSION, kind);
  if (type === undefined) throw new Error(`${kind} is not a kind of Gatehouse`);
  const all = objects.filter(({ object }) => isOwn(object) && textIn(object, 'kind') === kind);
  // The same file may be passed as a policy and as an object.
  const given = all.filter(
    ({ object }, index) => all.findIndex((other) => isEqual(other.object, object)) === index,
  );
  const { found, problems } = joined(given.map((placed) => readOne<T>(placed, type)));
  return { found, problems: [...namesTwice(kind, given), ...problems] };
}

/** Whether the object configures Gatehouse: policies do not apply to such objects. */
export const isOwn = (object: PlacedObject['object']): boolean =>
  textIn(object, 'apiVersion').startsWith(`${GROUP}/`);

function namesTwice(kind: string, given: readonly PlacedObject[]): readonly string[] {
  const keyOf = ({ object }: PlacedObject) =>
    [textIn(object, 'metadata', 'namespace'), textIn(object, 'metadata', 'name')].join('/');
  return [...Map.groupBy(given, keyOf)].flatMap(([key, same]) => {
    const name = key.startsWith('/') ? key.slice(1) : key;
    const places = same.map(({ place }) => describePlace(place)).join(' and ');
    return same.length < 2 ? [] : [`${places}: both are ${kind} ${name}: leave one out`];
  });
}

function readOne<T>(
  { object, place, locate = () => undefined }: PlacedObject,
  type: ResourceType,
): Parsed<Labelled<T>> {
  const labelOf: Labelled<T>['labelOf'] = (...field) =>
    `${describePlace({ ...place, ...locate(...field) })}: ${type.kind} ${textIn(object, 'metadata', 'name')}`;
  const label = `${describePlace(place)}: ${type.kind} ${textIn(object, 'metadata', 'name')}`;
  const wrong = (messages: readonly string[]) => ({
    found: [],
    problems: messages.map((message) => `${labelOf(fieldIn(message))}: ${message}`),
  });
  if (textIn(object, 'apiVersion') !== API_VERSION) return wrong([`apiVersion: must be ${API_VERSION}`]);
  const unknown: string[] = [];
  const warn = (text: string) => unknown.push(unknownField(text, type));
  try {
    const decoded = decodeObject(object, type, 'Warn', { ...SILENT, warn });
    validateCreate(decoded, type);
    if (unknown.length > 0) return wrong(unknown);
    return { found: [{ label, labelOf, object: decoded as unknown as T }], problems: [] }; // validated by its CRD
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    return wrong([...unknown, ...messagesOf(error)]);
  }
}

/** Says which field was probably meant, if the text of the API server names one that does not exist. */
function unknownField(text: string, { schema }: ResourceType): string {
  const [, path] = /^unknown field "(.*)"$/.exec(text) ?? [];
  const segments = path === undefined ? undefined : tryParsePath(path)?.segments;
  const at = segments && typeAt(objectType(schemaToJson(schema)), segments);
  return at?.kind === 'flaw' ? `${path ?? ''}: ${at.message}` : `${text}: correct its name, or remove it`;
}

/** The field that a message of the API server names first. */
const fieldIn = (message: string): string => /^(?:unknown field ")?([\w.[\]-]+)/.exec(message)?.[1] ?? '';

function messagesOf({ message, status }: ApiFailure): readonly string[] {
  const causes = status.details?.causes ?? [];
  if (causes.length === 0) return [message];
  return causes.map(({ field = '', message: what }) => (field === '' ? what : `${field}: ${what}`));
}
