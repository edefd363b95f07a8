import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { availableParallelism } from 'node:os';

import { messageOf } from '../../src/json/abort.ts';

/** As in a container of 512 MiB, the limit in deploy/base. With more memory, Node collects garbage later. */
export const CONTAINER_HEAP = ['--max-old-space-size=256', '--max-semi-space-size=8'];

type Functions = Readonly<Record<string, (...args: never[]) => unknown>>;

interface Call {
  readonly name: string;
  readonly args: never[];
}

interface ChildOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly execArgv?: readonly string[];
  /** `ignore` discards the output. */
  readonly stdout?: 'inherit' | 'ignore';
}

/** Forks a script of this folder. The child gets the Node options of this process and those in `execArgv`. */
export function startChild<Answers extends Functions>(
  script: string,
  { env, execArgv = [], stdout = 'inherit' }: ChildOptions = {},
) {
  const child = fork(join(import.meta.dirname, script), {
    execArgv: [...process.execArgv, ...execArgv],
    stdio: ['ignore', stdout, 'inherit', 'ipc'],
    ...(env === undefined ? {} : { env: { ...process.env, ...env } }),
  });
  const exited = once(child, 'exit');
  const failed = exited.then(() => Promise.reject(new Error(`${script} ended`)));
  failed.catch(() => undefined); // avoids an unhandled rejection when the child exits and no call is pending
  return {
    /** One call at a time, so that the next message is its result. @throws Error when the child exits, or its function throws */
    call: async <Name extends keyof Answers & string>(
      name: Name,
      ...args: Parameters<Answers[Name]>
    ): Promise<Awaited<ReturnType<Answers[Name]>>> => {
      const answered = once(child, 'message');
      child.send({ name, args });
      // `answerCalls` sends it.
      const [{ error, result }] = (await Promise.race([answered, failed])) as [
        { readonly error?: string; readonly result: Awaited<ReturnType<Answers[Name]>> },
      ];
      if (error !== undefined) throw new Error(error);
      return result;
    },
    stop: async () => {
      child.disconnect();
      await exited;
    },
  };
}

/** The child's side. Stops and exits when the parent disconnects. */
export function answerCalls(functions: Functions, stop: () => Promise<unknown> = () => Promise.resolve()) {
  const answer = async ({ name, args }: Call) => ({ result: await functions[name]?.(...args) });
  process.on('message', (call) => {
    void answer(call as Call) // `call` sends it
      .catch((error: unknown) => ({ error: messageOf(error) }))
      .then((said) => process.send?.(said));
  });
  process.once('disconnect', () => {
    void stop().finally(() => process.exit());
  });
}

/** Pins this process with all its threads to one core. False if the machine does not support it. */
export function pinTo(core: number): boolean {
  if (core >= availableParallelism()) return false;
  const words = ['--all-tasks', '--cpu-list', '--pid', String(core), String(process.pid)];
  return spawnSync('taskset', words).status === 0;
}
