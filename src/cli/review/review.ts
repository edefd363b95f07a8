/** `gatehouse review`: checks objects against policies and handlers, from files or in a cluster. */
import { resolve } from 'node:path';

import { type JsonObject, pick, textIn } from '../../json/json.ts';
import { counted } from '../../json/counted.ts';
import { ownNamespace } from '../../config/config.ts';
import { type LoadedHandler, loadHandlers } from '../../runtime/handlers/load-handlers.ts';
import { modeOf, type ReviewFlags, userOf } from './flags.ts';
import { describePlace, type PlacedObject, readInputs, type ReadOptions, refuse } from './input.ts';
import { formatJson, hasColours, print } from '../terminal/output.ts';
import { formatJunit, type JunitSuite } from './report/junit.ts';
import {
  objectsJson,
  objectsJunit,
  objectsTable,
  suitesJson,
  suitesJunit,
  suitesText,
} from './report/objects.ts';
import { runSuites } from './suite/suite.ts';
import { messageWithCauses } from '../../json/abort.ts';
import { inHandler, surviveStrayErrors } from '../../runtime/handlers/stray-errors.ts';
import { groupOf } from './kinds.ts';
import { isOwn } from './policies.ts';
import { createReviewer, type ReviewRequest } from './reviewer.ts';
import { logFor, type ReviewContext } from './stage.ts';

type ExitCode = 0 | 1 | 2;

interface Result {
  readonly table: () => string;
  readonly json: () => object;
  readonly junit: () => readonly JunitSuite[];
  readonly notes: readonly string[];
  readonly exitCode: ExitCode;
}

export async function review(flags: ReviewFlags): Promise<ExitCode> {
  const mode = usableMode(flags);
  if (mode === undefined) return 2;
  try {
    const runs = { objects: runObjects, policies: runPolicies, suites: runTests, cluster: runCluster };
    const result = await runs[mode](flags, { recursive: flags.recursive === true });
    const text = {
      table: result.table,
      json: () => formatJson(result.json()),
      junit: () => formatJunit('review', result.junit()),
    }[flags.output]();
    for (const note of result.notes) console.error(`note: ${note}`);
    await print(text);
    return result.exitCode;
  } catch (error) {
    for (const line of messageWithCauses(error).split('\n'))
      console.error(line.startsWith('    ') ? line : `error: ${line}`);
    return 2;
  }
}

function usableMode(flags: ReviewFlags): ReturnType<typeof modeOf> | undefined {
  try {
    return modeOf(flags);
  } catch (error) {
    console.error(`error: ${messageWithCauses(error).replaceAll('\n', '; ')}`);
    console.error('See gatehouse review --help');
    return undefined;
  }
}

async function runObjects(flags: ReviewFlags, options: ReadOptions): Promise<Result> {
  const handlers = await openHandlers(flags.handlers, process.cwd());
  const { reviewed, notes } = await reviewObjects(flags, options, { ...context(), handlers });
  const denied = reviewed.some(({ result }) => result.verdict === 'denied');
  return {
    table: () => objectsTable(reviewed, tableOptions(flags)),
    json: () => objectsJson(reviewed, notes),
    junit: () => objectsJunit(reviewed),
    notes,
    exitCode: denied ? 1 : 0,
  };
}

async function runPolicies(flags: ReviewFlags, options: ReadOptions): Promise<Result> {
  const handlers = await openHandlers(flags.handlers, process.cwd());
  const existing = readInputs([flags.crds, flags.policies], options).flat();
  const { namespace = 'default' } = flags;
  const compiled = createReviewer({ namespace, reviewed: [], existing }, { ...context(), handlers });
  refuse(compiled.isEmpty ? NO_POLICY : []);
  const notes = [...compiled.notes, ...compiled.unchecked];
  return {
    table: () => compiledText(compiled),
    json: () => ({ kind: 'PolicyReview', ...pick(compiled, 'policies', 'handlers'), notes }),
    junit: () => compiledJunit(compiled),
    notes,
    exitCode: 0,
  };
}

async function runTests(flags: ReviewFlags, options: ReadOptions): Promise<Result> {
  const suites = await runSuites(flags.suite ?? [], options, {
    ...context(),
    openHandlers: flags.allowHandlers === true ? openHandlers : undefined,
  });
  const notes = suites.flatMap((suite) => suite.notes);
  const failed = suites.some(({ results }) => results.some(({ mismatches }) => mismatches.length > 0));
  return {
    table: () => suitesText(suites, tableOptions(flags)),
    json: () => suitesJson(suites, notes),
    junit: () => suitesJunit(suites),
    notes,
    exitCode: failed ? 1 : 0,
  };
}

const tableOptions = ({ showPatch = false }: ReviewFlags) => ({ colours: hasColours(), showPatch });

async function runCluster(flags: ReviewFlags, options: ReadOptions): Promise<Result> {
  // Load the Kubernetes client only if needed.
  const { clusterJson, clusterJunit, clusterTable, reviewCluster } =
    await import('./cluster/review-cluster.ts');
  const result = await reviewCluster(flags, options, ownNamespace());
  const isIncomplete = result.policies.some(({ incomplete }) => incomplete !== undefined);
  const isViolated = result.policies.some(({ violators }) => violators.length > 0);
  return {
    table: () => clusterTable(result, hasColours()),
    json: () => clusterJson(result),
    junit: () => clusterJunit(result),
    notes: result.notes,
    exitCode: isIncomplete ? 2 : isViolated ? 1 : 0,
  };
}

const context = () => ({ ownNamespace: ownNamespace(), now: new Date() });

async function openHandlers(source: string | undefined, from: string): Promise<readonly LoadedHandler[]> {
  if (source === undefined) return [];
  const onStray = (handler = 'unknown', error: Error) => {
    logFor(handler).error('error outside of a call: await all promises in the handler', { err: error });
  };
  surviveStrayErrors(resolve(from, source), onStray, new AbortController().signal);
  return await inHandler('loading', () => loadHandlers(source, from));
}

const NO_POLICY = ['no AdmissionPolicy and no handler in the input: pass policies with -p'];

export async function reviewObjects(flags: ReviewFlags, options: ReadOptions, context: ReviewContext) {
  const { filename = [], namespace = 'default' } = flags;
  const [given = [], old = [], ...others] = readInputs(
    [filename, flags.old, flags.crds, flags.policies, flags.existing],
    options,
  );
  const own = given.filter(({ object }) => isOwn(object));
  const reviewed = given.filter(({ object }) => !isOwn(object));
  const nothing = `${filename.join(', ')}: nothing to review: all objects configure Gatehouse`;
  refuse(reviewed.length === 0 ? [nothing] : []);
  const existing = [...others.flat(), ...own, ...old];
  const { review, notes, isEmpty } = createReviewer({ namespace, reviewed, existing }, context);
  refuse(isEmpty ? NO_POLICY : []);
  const requests = requestsFor(reviewed, old, flags, namespace);
  return { reviewed: await review(requests), notes };
}

function requestsFor(
  reviewed: readonly PlacedObject[],
  old: readonly PlacedObject[],
  flags: ReviewFlags,
  namespace: string,
): readonly ReviewRequest[] {
  const user = userOf(flags.user, flags.group);
  const before = new Map(old.map((placed) => [keyOf(placed.object, namespace), placed.object]));
  const requests = reviewed.map(({ object, place }): ReviewRequest => {
    const was = before.get(keyOf(object, namespace));
    const operation = flags.operation ?? (was === undefined ? 'CREATE' : 'UPDATE');
    return { place, object, old: was, operation, user };
  });
  refuse(
    requests.flatMap(({ place, object, old: was, operation }) =>
      operation === 'UPDATE' && was === undefined
        ? [`${describePlace(place)}: ${textIn(object, 'kind')} is not in --old, so it cannot be an UPDATE`]
        : [],
    ),
  );
  return requests;
}

function keyOf(object: JsonObject, namespace: string): string {
  const place = textIn(object, 'metadata', 'namespace') || namespace;
  return JSON.stringify([groupOf(object), textIn(object, 'kind'), place, textIn(object, 'metadata', 'name')]);
}

type Compiled = Pick<ReturnType<typeof createReviewer>, 'policies' | 'handlers'>;

function compiledText({ policies, handlers }: Compiled): string {
  const count = (all: readonly string[], one: string) => (all.length > 0 ? [counted(all.length, one)] : []);
  const parts = [...count(policies, 'policy'), ...count(handlers, 'handler')];
  return `${parts.join(' and ')} ${policies.length + handlers.length === 1 ? 'compiles' : 'compile'}\n`;
}

function compiledJunit({ policies, handlers }: Compiled): readonly JunitSuite[] {
  const cases = [...policies, ...handlers.map((name) => `${name} (handler)`)].map((name) => ({
    name: `${name} compiles`,
    className: 'policies',
    output: [],
  }));
  return [{ name: 'gatehouse review', cases }];
}
