import { isDnsLabel } from '../../json/names.ts';
import { quote } from '../../json/printable.ts';
import {
  HANDLER,
  type Handler,
  type HandlerDefinition,
  type OnError,
  type UntypedObject,
} from './handler.ts';

const KNOWN: readonly (keyof HandlerDefinition)[] = [
  'name',
  'match',
  'failurePolicy',
  'timeoutSeconds',
  'onError',
  'reads',
  'mutate',
  'validate',
  'convert',
];
const MATCH_KNOWN: readonly (keyof HandlerDefinition['match'])[] = [
  'apiGroups',
  'apiVersions',
  'resources',
  'operations',
  'namespaceSelector',
  'objectSelector',
  'matchConditions',
];
const ON_ERROR: readonly OnError[] = ['deny', 'failurePolicy', 'allow'];
const OPERATIONS = ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'];
/** `handler-` and the name form a label of the webhook's name, which has at most 63 characters. */
const LONGEST_NAME = 40;

/** A handler: TypeScript that mutates, validates or converts objects, where an AdmissionPolicy is not enough. */
export function defineHandler<T extends object = UntypedObject>(
  definition: HandlerDefinition<T>,
): Handler<T> {
  const problems = problemsOf(definition);
  if (problems.length > 0) throw new TypeError(`defineHandler: ${problems.join('; ')}`);
  return Object.freeze({ ...definition, [HANDLER]: true as const });
}

export function isHandler(value: unknown): value is Handler {
  return typeof value === 'object' && value !== null && Reflect.get(value, HANDLER) === true;
}

/** Checks everything at runtime: authors may write JavaScript, without types. */
function problemsOf(definition: unknown): readonly string[] {
  if (!isRecord(definition)) return ['write an object with match, and with mutate, validate or convert'];
  const { name, match, failurePolicy, timeoutSeconds, onError, reads, mutate, validate, convert } =
    definition;
  return [
    ...unknownKeys(definition, KNOWN, ''),
    ...(name === undefined || (typeof name === 'string' && isHandlerName(name))
      ? []
      : [
          `name ${quote(name)} is not a DNS label of at most ${LONGEST_NAME} characters, such as server-racks`,
        ]),
    ...(isRecord(match) ? matchProblems(match) : ['match: write an object with apiGroups and resources']),
    ...oneOf('failurePolicy', failurePolicy, ['Fail', 'Ignore']),
    ...oneOf('onError', onError, ON_ERROR),
    ...(timeoutSeconds === undefined || isTimeout(timeoutSeconds)
      ? []
      : ['timeoutSeconds: write a whole number of seconds, 1 to 30']),
    ...(reads === undefined || (Array.isArray(reads) && reads.every(isReadable))
      ? []
      : ['reads: write a list of kinds such as "datacenters.infra.example.com"']),
    ...[['mutate', mutate] as const, ['validate', validate] as const].flatMap(([key, value]) =>
      value === undefined || typeof value === 'function' ? [] : [`${key} is not a function`],
    ),
    ...(convert === undefined ? [] : conversionProblems(convert)),
    ...([mutate, validate, convert].every((part) => part === undefined)
      ? ['it has neither mutate, validate nor convert']
      : []),
  ];
}

function conversionProblems(convert: unknown): readonly string[] {
  if (!isRecord(convert)) return ['convert: write an object with hub and versions'];
  const { hub, versions } = convert;
  if (typeof hub !== 'string' || !isDnsLabel(hub)) return ['convert.hub: write a version such as v2'];
  if (!isRecord(versions) || Object.keys(versions).length === 0) {
    return ['convert.versions: write an object with toHub and fromHub for each other version'];
  }
  return Object.entries(versions).flatMap(([version, conversion]) => {
    const where = `convert.versions.${version}`;
    if (version === hub) return [`${where}: it is the hub, which needs no conversion`];
    const isWhole =
      isRecord(conversion) &&
      [conversion.toHub, conversion.fromHub].every((part) => typeof part === 'function');
    return isWhole && isDnsLabel(version)
      ? []
      : [`${where}: write a version with functions toHub and fromHub`];
  });
}

export function isHandlerName(name: string): boolean {
  return name.length <= LONGEST_NAME && isDnsLabel(name);
}

function matchProblems(match: Readonly<Record<string, unknown>>): readonly string[] {
  const { apiGroups, apiVersions, resources, operations, matchConditions } = match;
  const list = (key: string, value: unknown, wanted: string) =>
    isTexts(value) ? [] : [`match.${key}: write a list of ${wanted}`];
  return [
    ...unknownKeys(match, MATCH_KNOWN, 'match.'),
    ...list('apiGroups', apiGroups, 'API groups, with "" for the core group'),
    ...list('resources', resources, 'plurals such as servers'),
    ...(apiVersions === undefined ? [] : list('apiVersions', apiVersions, 'API versions such as v1')),
    ...(operations === undefined ||
    (isTexts(operations) && operations.every((operation) => OPERATIONS.includes(operation)))
      ? []
      : [`match.operations: write a list of ${OPERATIONS.join(', ')}`]),
    ...(matchConditions === undefined ||
    (Array.isArray(matchConditions) && matchConditions.every(isCondition))
      ? []
      : ['match.matchConditions: write a list of objects with name and expression']),
  ];
}

function unknownKeys(value: object, known: readonly string[], place: string): readonly string[] {
  return Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => `${place}${key} is unknown; there are ${known.join(', ')}`);
}

function oneOf(key: string, value: unknown, choices: readonly string[]): readonly string[] {
  return value === undefined || choices.some((choice) => choice === value)
    ? []
    : [`${key}: ${quote(value)} is none of ${choices.join(', ')}`];
}

function isTimeout(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 30;
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string');
}

function isCondition(value: unknown): boolean {
  return isRecord(value) && typeof value.name === 'string' && typeof value.expression === 'string';
}

function isReadable(value: unknown): boolean {
  if (typeof value === 'string') return value.split('.').every(isDnsLabel);
  if (!isRecord(value)) return false;
  const { apiGroup, apiVersion, resource, metadataOnly } = value;
  return (
    typeof resource === 'string' &&
    isDnsLabel(resource) &&
    [apiGroup, apiVersion].every((text) => text === undefined || typeof text === 'string') &&
    (metadataOnly === undefined || typeof metadataOnly === 'boolean')
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
