/** The controllers of users on the leader. Each pauses while a dev session (`serve --dev-url`) runs it on a laptop. */
import type { CompiledController } from '../../controllers/compile-controller.ts';
import { linkedController } from '../../kube/clock.ts';
import {
  AWAIT_CHANGE,
  inLocalTime,
  startController,
  type RecordingContext,
  type Reconcile,
} from '../controller.ts';
import type { InstalledWebhooks } from '../webhooks/installed-webhooks.ts';
import { startControllers } from './start-controllers.ts';

type Sessions = Pick<InstalledWebhooks, 'devSessions' | 'whenListed' | 'onChange'>;

export function startUnlessLent(
  context: RecordingContext,
  sessions: Sessions,
  controllers: readonly CompiledController[],
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  if (controllers.length === 0) return { stopped: Promise.resolve() };
  const { serverClock, log } = context;
  const failed = Promise.withResolvers<never>();
  const running = new Map<
    string,
    { readonly end: () => Promise<unknown>; readonly stopped: Promise<unknown> }
  >();
  const start = (controller: CompiledController) => {
    const { signal: own, abort, release } = linkedController(signal);
    const { stopped } = startControllers(context, [controller], own);
    stopped.catch(failed.reject);
    const end = async () => {
      abort(new Error('a dev session runs the controller'));
      await stopped.finally(release);
    };
    running.set(controller.name, { end, stopped });
  };
  /** The key is the name of a controller. */
  const reconcile: Reconcile = async (name, waiting) => {
    await sessions.whenListed(waiting);
    const lent = sessions
      .devSessions(serverClock.now())
      .filter((session) => session.controllers?.includes(name));
    const [session] = lent.toSorted((a, b) => b.expiresAt.getTime() - a.expiresAt.getTime());
    const controller = controllers.find((one) => one.name === name);
    if (session === undefined) {
      if (!running.has(name) && controller !== undefined) start(controller);
      return AWAIT_CHANGE;
    }
    const { holder, expiresAt } = session;
    if (running.has(name)) log.info({ name, holder }, 'a dev session runs this controller: it pauses here');
    await running.get(name)?.end();
    running.delete(name);
    return { kind: 'requeue', at: expiresAt };
  };
  const options = { name: 'lend-controllers', reconcile: inLocalTime(reconcile, serverClock.now) };
  const { add, stopped } = startController(context, options, signal);
  const look = () => {
    for (const { name } of controllers) add(name);
  };
  sessions.onChange(look, signal);
  look();
  const all = stopped.then(() => Promise.all([...running.values()].map((one) => one.stopped)));
  return { stopped: Promise.race([all, failed.promise]) };
}
