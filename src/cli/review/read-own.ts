/** Reads the objects of the kinds of Gatehouse. */
import { validateCreate } from '../../sandbox/machinery/objects/validate.ts';
import { isEqual } from '../../json/json.ts';
import { GROUP, VERSION } from '../../api/group.ts';
import type { ApiObject } from '../../sandbox/machinery/api-object.ts';
import { ApiFailure } from '../../sandbox/machinery/failure.ts';
import { decodeObject } from '../../sandbox/machinery/objects/decode.ts';
import type { ResourceRegistry, ResourceType } from '../../sandbox/machinery/resource-type.ts';
import { describePlace, metaTextOf, textOf, type PlacedObject } from './documents.ts';

/** An object of a kind of Gatehouse, and its label in messages. */
export interface Labelled {
  /** e.g. `policies/servers.yaml:1: AdmissionPolicy servers` */
  readonly label: string;
  readonly object: ApiObject;
}

const API_VERSION = `${GROUP}/${VERSION}`;

/**
 * Reads the objects of a kind with defaults and validation, like the API server. Stricter in one point: an unknown
 * field is an error.
 */
export function readOwn(
  kind: string,
  objects: readonly PlacedObject[],
  registry: Pick<ResourceRegistry, 'findKind'>,
): { readonly found: readonly Labelled[]; readonly problems: readonly string[] } {
  const type = registry.findKind(API_VERSION, kind);
  if (type === undefined) throw new Error(`${kind} is not a kind of Gatehouse`);
  const given = withoutCopies(
    objects.filter(({ object }) => isOwn(object) && textOf(object, 'kind') === kind),
  );
  const read = given.map((placed) => readOne(placed, type));
  return {
    found: read.flatMap((result) => ('problems' in result ? [] : [result])),
    problems: [
      ...namesTwice(kind, given),
      ...read.flatMap((result) => ('problems' in result ? result.problems : [])),
    ],
  };
}

/** Whether the object configures Gatehouse: policies do not apply to such objects. */
export const isOwn = (object: PlacedObject['object']): boolean =>
  textOf(object, 'apiVersion').startsWith(`${GROUP}/`);

/** The same file may be passed as a policy and as an object. */
function withoutCopies(given: readonly PlacedObject[]): readonly PlacedObject[] {
  return given.filter(
    ({ object }, index) => given.findIndex((other) => isEqual(other.object, object)) === index,
  );
}

function namesTwice(kind: string, given: readonly PlacedObject[]): readonly string[] {
  return [...Map.groupBy(given, ({ object }) => metaTextOf(object, 'name'))].flatMap(([name, same]) => {
    const places = same.map(({ place }) => describePlace(place)).join(' and ');
    return same.length < 2 ? [] : [`${places}: both are ${kind} ${name}: leave one out`];
  });
}

function readOne(
  { object, place }: PlacedObject,
  type: ResourceType,
): Labelled | { readonly problems: readonly string[] } {
  const label = `${describePlace(place)}: ${type.kind} ${metaTextOf(object, 'name')}`;
  const wrong = (messages: readonly string[]) => ({
    problems: messages.map((message) => `${label}: ${message}`),
  });
  if (textOf(object, 'apiVersion') !== API_VERSION) return wrong([`apiVersion: must be ${API_VERSION}`]);
  const unknown: string[] = [];
  const warn = (text: string) => unknown.push(`${text}: correct its name, or remove it`);
  try {
    const decoded = decodeObject(object, type, 'Warn', { warn, annotate: () => undefined });
    validateCreate(decoded, type);
    return unknown.length > 0 ? wrong(unknown) : { label, object: decoded };
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    return wrong([...unknown, ...messagesOf(error)]);
  }
}

function messagesOf({ message, status }: ApiFailure): readonly string[] {
  const causes = status.details?.causes ?? [];
  if (causes.length === 0) return [message];
  return causes.map(({ field = '', message: what }) => (field === '' ? what : `${field}: ${what}`));
}
