import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { compileMatch, type MatchEnvironment } from '../policy/match/compile-match.ts';
import type { CompiledMatch } from '../policy/compiled-policy.ts';
import { createReport, type Problem } from '../policy/problem.ts';
import { type AdmissionRequest, type Operation, writes } from '../review/request.ts';
import { hasWildcard, patternsFor } from '../policy/match/resource-pattern.ts';
import { ConversionFailure, versionOf, type Converter } from '../conversion/converter.ts';
import type {
  Handler,
  HandlerAnswer,
  OnError,
  ReadableKind,
  HandlerContext,
  HandlerConversion,
  VersionConversion,
} from './handler.ts';
import type { JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { copyJson, InvalidDraft } from './draft.ts';

export interface ReadKind extends GroupResource {
  /** Undefined: the version that the API server prefers. */
  readonly version: string | undefined;
  readonly metadataOnly: boolean;
}

export type HandlerFunction = (object: object, context: HandlerContext<object>) => HandlerAnswer;

/** A valid handler: its scope is safe, and the API server accepts its webhook. */
export interface CompiledHandler {
  readonly name: string;
  readonly entryId: string;
  readonly match: CompiledMatch;
  readonly onError: OnError;
  readonly reads: readonly ReadKind[];
  /** Whether the author listed the kinds that it reads. If so, they are watched from the start. */
  readonly namesReads: boolean;
  readonly converter: Converter | undefined;
  readonly mutate: HandlerFunction | undefined;
  readonly validate: HandlerFunction | undefined;
}

/** Only entries of handlers have it: the entries of policies begin with the failurePolicy. */
const ENTRY_PREFIX = 'handler-';

export const handlerOfEntry = (entryId: string): string | undefined =>
  entryId.startsWith(ENTRY_PREFIX) ? entryId.slice(ENTRY_PREFIX.length) : undefined;

/** @param name the name in the definition, or the name of the file */
export function compileHandler(
  name: string,
  handler: Handler<never>,
  environment: MatchEnvironment,
):
  | { readonly kind: 'compiled'; readonly handler: CompiledHandler }
  | { readonly kind: 'rejected'; readonly problems: readonly string[] } {
  const problems: Problem[] = [];
  const match = compileMatch(handler, environment, createReport(problems));
  const kinds = governed(match);
  const [target] = kinds;
  const compiled: CompiledHandler = {
    name,
    entryId: `${ENTRY_PREFIX}${name}`,
    match,
    onError: handler.onError ?? 'deny',
    reads: handler.reads?.map(toReadKind) ?? kinds,
    namesReads: handler.reads !== undefined,
    converter: handler.convert && target && createHandlerConverter(name, target, handler.convert),
    // The API server sends only kinds in `match`. The author guarantees that these have the type T.
    mutate: handler.mutate as HandlerFunction | undefined,
    validate: handler.validate as HandlerFunction | undefined,
  };
  const all = [
    // Problems name the field of the module: remove the prefix of policies.
    ...problems.map(({ where, message }) => `${where.replace(/^spec\./, '')}: ${message}`),
    ...(compiled.mutate !== undefined && mutatedOperations(compiled).length === 0
      ? ['mutate: it would never be called, because match.operations has neither CREATE nor UPDATE']
      : []),
    ...(handler.convert !== undefined && kinds.length !== 1
      ? ['convert: match must have one API group and one resource, without wildcards']
      : []),
  ];
  return all.length > 0 ? { kind: 'rejected', problems: all } : { kind: 'compiled', handler: compiled };
}

export function mutatedOperations({ mutate, match }: CompiledHandler): readonly Operation[] {
  return mutate === undefined ? [] : match.operations.filter(writes);
}

export function validatedOperations({ validate, match }: CompiledHandler): readonly Operation[] {
  return validate === undefined ? [] : match.operations;
}

export function isGoverned(
  { match }: CompiledHandler,
  { resource, subResource, operation }: Pick<AdmissionRequest, 'resource' | 'subResource' | 'operation'>,
): boolean {
  const patterns = patternsFor(resource.resource, subResource);
  return (
    match.apiGroups.includes(resource.group) &&
    match.operations.includes(operation) &&
    (match.apiVersions.includes('*') || match.apiVersions.includes(resource.version)) &&
    match.resources.some((pattern) => patterns.includes(pattern))
  );
}

function governed({ apiGroups, resources }: CompiledMatch): readonly ReadKind[] {
  const whole = resources.filter((resource) => !resource.includes('/') && !hasWildcard(resource));
  return apiGroups.flatMap((apiGroup) => whole.map((resource) => toReadKind({ apiGroup, resource })));
}

export function toReadKind(kind: ReadableKind): ReadKind {
  if (typeof kind === 'string') {
    const [resource = '', ...group] = kind.split('.');
    return toReadKind({ apiGroup: group.join('.'), resource });
  }
  const { apiGroup = '', apiVersion, resource, metadataOnly = false } = kind;
  return { group: apiGroup, resource, version: apiVersion, metadataOnly };
}

export function readKindOf(reads: readonly ReadKind[], text: string): ReadKind | string {
  const exact = reads.find((kind) => groupResourceName(kind) === text);
  if (exact !== undefined) return exact;
  const called = reads.filter(({ resource }) => resource === text);
  const [only, other] = called;
  if (only === undefined) {
    const known = reads.map(groupResourceName).join(', ');
    return `${JSON.stringify(text)} not found in reads, which has ${known === '' ? 'no kinds' : known}; add it there`;
  }
  return other === undefined
    ? only
    : `${JSON.stringify(text)} is ambiguous; write ${called.map(groupResourceName).join(' or ')}`;
}

export function createHandlerConverter(
  handler: string,
  { group, resource }: GroupResource,
  { hub, versions }: HandlerConversion<never>,
): Converter {
  const conversions = new Map(Object.entries(versions));
  const conversionOf = (version: string): VersionConversion<never> => {
    const conversion = conversions.get(version);
    if (conversion !== undefined) return conversion;
    const known = [hub, ...conversions.keys()].join(', ');
    throw new ConversionFailure(
      `handler ${handler} does not support version ${quote(version)}, only ${known}`,
    );
  };
  return {
    name: `handler ${handler}`,
    target: { group, resource },
    versions: [hub, ...conversions.keys()],
    convert: (object, to) => {
      const from = versionOf(object);
      const atHub =
        from === hub ? object : changed(handler, object, (copy) => conversionOf(from).toHub(copy));
      // The author guarantees the type of hub objects, because the author writes the conversions to the hub.
      return to === hub ? atHub : changed(handler, atHub, (copy) => conversionOf(to).fromHub(copy as never));
    },
  };
}

function changed(handler: string, object: JsonObject, act: (copy: object) => unknown): JsonObject {
  const copy = copyJson(object);
  const answer = act(copy);
  if (answer !== undefined && (typeof answer !== 'object' || answer === null || answer instanceof Promise))
    throw new Error(
      `a conversion returned ${quote(answer)}; return the object, or nothing after a change in place`,
    );
  try {
    return copyJson(answer ?? copy);
  } catch (error) {
    if (!(error instanceof InvalidDraft)) throw error;
    throw new ConversionFailure(`the result of handler ${handler} is not JSON: ${error.message}`, {
      cause: error,
    });
  }
}
