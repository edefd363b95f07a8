/** `gatehouse restore`: windows are opened, closed, looked at and approved, as the user of the kubeconfig. */
import { approveWindow, closeWindow } from './close.ts';
import type { ExitCode, Say } from './outcome.ts';
import type { RestoreCommand } from './command.ts';
import { hintFor } from './failure.ts';
import { newWindow, readTimeout, WrongUsage } from './new-window.ts';
import { openWindow } from './open.ts';
import { showFinalReport } from './final-report.ts';
import { showStatus } from './status.ts';
import { sentenceOf } from '../../json/error-message.ts';
import { connectToCluster, type UserCluster } from '../user-cluster.ts';

/** Prints what has become of it; what keeps it from being done is told in sentences. */
export async function restore(command: RestoreCommand): Promise<ExitCode> {
  const say: Say = {
    result: (text) =>
      new Promise<void>((done) => {
        process.stdout.write(text, () => {
          done();
        });
      }),
    note: (text) => {
      console.error(text);
    },
  };
  try {
    checkUsage(command);
    const cluster = await connectToCluster(command.flags, 'restore');
    try {
      return await run(command, cluster, say);
    } finally {
      await cluster.close();
    }
  } catch (error) {
    for (const line of sentenceOf(error).split('\n')) console.error(`error: ${line}`);
    const hint = hintFor(error);
    if (hint !== undefined) console.error(`hint: ${hint}`);
    return error instanceof WrongUsage ? 2 : 1;
  }
}

/** Before anybody waits for a cluster. @throws WrongUsage */
function checkUsage(command: RestoreCommand): void {
  if (command.kind === 'open' || command.kind === 'close') readTimeout(command.flags.timeout);
  if (command.kind === 'status') {
    readTimeout(command.flags.timeout);
    if (command.flags.watch === true && command.name === undefined)
      throw new WrongUsage('--watch is for one window: gatehouse restore status <name> --watch');
  }
  if (command.kind === 'open') newWindow(command.name, command.flags, new Date());
}

async function run(command: RestoreCommand, cluster: UserCluster, say: Say): Promise<ExitCode> {
  switch (command.kind) {
    case 'open':
      return await openWindow(cluster, command.name, command.flags, say);
    case 'close':
      return await closeWindow(cluster, command.name, command.flags, say);
    case 'approve':
      return await approveWindow(cluster, command.name, say);
    case 'status': {
      const { output: format, timeout, watch } = command.flags;
      if (watch !== true || command.name === undefined)
        return await showStatus(cluster, command.name, format, say);
      const patience = { timeout, timeoutMs: readTimeout(timeout), format };
      return await showFinalReport(cluster, command.name, patience, say);
    }
  }
}
