/**
 * The heap limits that Node chooses in a container of 512 MiB, the limit in deploy/base: half of it for the old
 * generation, and a 64th of that half for each semi-space. On a machine with more memory, Node collects garbage later.
 */
export const CONTAINER_HEAP = ['--max-old-space-size=256', '--max-semi-space-size=4'];
