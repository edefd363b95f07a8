/** As in a container of 512 MiB, the limit in deploy/base. With more memory, Node collects garbage later. */
export const CONTAINER_HEAP = ['--max-old-space-size=256', '--max-semi-space-size=8'];
