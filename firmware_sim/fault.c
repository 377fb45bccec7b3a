/* A store to an address where no board has memory. */
int main(void)
{
    *(volatile int *)0xF0000000u = 1;
    return 0;
}
